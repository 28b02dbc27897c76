/** By how much, in ms, the wall clock must get ahead to say that the machine slept. */
const SLEPT = 1_000;

/**
 * A clock of two. A monotonic clock may stand still while the machine sleeps; the wall
 * clock goes on, but people set it. This one follows the monotonic clock and adds what
 * the wall clock got ahead, so that it never goes back and sleeps through nothing.
 * Setting the wall clock forward makes it hurry once, which costs an early heartbeat.
 */
export class SteadyClock {
  readonly #wall: () => number;
  readonly #monotonic: () => number;
  #now = 0;
  #last: readonly [wall: number, monotonic: number];

  constructor(wall: () => number, monotonic: () => number) {
    this.#wall = wall;
    this.#monotonic = monotonic;
    this.#last = [wall(), monotonic()];
  }

  now(): number {
    const [wall, monotonic] = this.#last;
    this.#last = [this.#wall(), this.#monotonic()];
    const passed = this.#last[1] - monotonic;
    const ahead = this.#last[0] - wall - passed;
    this.#now += passed + (ahead > SLEPT ? ahead : 0);
    return this.#now;
  }
}
