import type { State } from "../src/state.js";

/** Somebody in the list. */
export interface Person {
  readonly id: string;
  readonly key: string; // what is searched and sorted by
  state: State;
}

/** How long somebody who has left stays in the list. */
export const LINGER = 60_000;

/**
 * Who is in the list: whoever is shown as being there or has just left, and of those who
 * are watched by name also the others. It is kept sorted by name, so that nobody moves when
 * a state changes.
 */
export class Roster {
  readonly #people = new Map<string, Person>();
  readonly #sorted: Person[] = [];
  #query = "";
  #shown: readonly Person[] | undefined;
  readonly #watched: (id: string) => boolean;

  constructor(watched: (id: string) => boolean) {
    this.#watched = watched;
  }

  /** Takes a state in; says what it means for the list. */
  apply(state: State, at: number): "came" | "left" | "changed" {
    const known = this.#people.get(state.target);
    if (state.status === "withdrawn") {
      if (known) this.drop(state.target);
      return known?.state.status === "online" ? "left" : "changed";
    }
    const was = known?.state.status;
    const doubted = known?.state.reason;
    if (known) known.state = state;
    else this.#add({ id: state.target, key: state.target.toLowerCase(), state });
    // Who came into the list or changed between there and not there moves in or out of it.
    if (was !== state.status || (doubted === undefined) !== (state.reason === undefined)) this.#shown = undefined;
    if (state.status === "online") return was === "online" ? "changed" : "came";
    if (was === "online") this.#leaves.set(state.target, at);
    return was === "online" ? "left" : "changed";
  }

  readonly #leaves = new Map<string, number>(); // when they left

  /** Lets go of those who left a while ago; says whether there were any. */
  settle(now: number): boolean {
    let any = false;
    for (const [id, at] of this.#leaves) {
      if (now - at < LINGER) continue;
      this.#leaves.delete(id);
      this.#shown = undefined;
      any = true;
    }
    return any;
  }

  get(id: string): Person | undefined {
    return this.#people.get(id);
  }

  drop(id: string): void {
    const person = this.#people.get(id);
    if (!person) return;
    this.#people.delete(id);
    this.#leaves.delete(id);
    this.#sorted.splice(this.#position(person), 1);
    this.#shown = undefined;
  }

  search(query: string): void {
    this.#query = query.trim().toLowerCase();
    this.#shown = undefined;
  }

  /** Who is watched by name has changed. */
  review(): void {
    this.#shown = undefined;
  }

  get online(): number {
    let n = 0;
    for (const p of this.#sorted) if (p.state.status === "online") n++;
    return n;
  }

  /** The list as it is now; the same array until it is another list. */
  get shown(): readonly Person[] {
    return (this.#shown ??= this.#sorted.filter((p) => p.key.includes(this.#query) && this.#belongs(p)));
  }

  #belongs({ id, state }: Person): boolean {
    return state.status === "online" || this.#leaves.has(id) || this.#watched(id) || state.reason !== undefined;
  }

  #add(person: Person): void {
    this.#people.set(person.id, person);
    this.#sorted.splice(this.#position(person), 0, person);
  }

  /** Where somebody stands, or would. */
  #position(person: Person): number {
    let low = 0;
    let high = this.#sorted.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (before(this.#sorted[middle]!, person)) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

function before(a: Person, b: Person): boolean {
  return a.key === b.key ? a.id < b.id : a.key < b.key;
}
