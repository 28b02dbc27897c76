import type { Host } from "./host.js";

/** How long, in ms, a leading tab may take to answer another one. */
const ANSWER = 5_000;

/** By how much, in ms, a timer may be late on a machine that is awake. */
const LATE = 2_000;

/**
 * Watches over the leading tab. Browsers may stop a page and let it keep its lock; a tab
 * that does not answer must not be what everybody waits for.
 */
export class Watchdog {
  readonly #host: Host;
  readonly #doubt: () => void;
  readonly #dead: () => void;
  #cancel: (() => void) | undefined;
  #asking = false;

  /**
   * `doubt` is called when the leading tab should be asked, `dead` if it did not
   * answer.
   */
  constructor(host: Host, doubt: () => void, dead: () => void) {
    this.#host = host;
    this.#doubt = doubt;
    this.#dead = dead;
  }

  /** The leading tab was asked. */
  asked(): void {
    if (this.#asking) return;
    this.stop();
    this.#asking = true;
    const due = this.#host.now() + ANSWER;
    this.#cancel = this.#host.after(ANSWER, () => {
      this.#asking = false;
      // A timer that comes late says that this tab was stopped itself.
      if (this.#host.now() - due < LATE) this.#dead();
      else this.#doubt();
    });
  }

  /** The leading tab spoke, and is to speak again within `within` ms. */
  heard(within: number): void {
    this.stop();
    this.#cancel = this.#host.after(within, this.#doubt);
  }

  stop(): void {
    this.#cancel?.();
    this.#cancel = undefined;
    this.#asking = false;
  }
}
