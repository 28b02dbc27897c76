import type { Host } from "./host.js";

/**
 * How long, in ms, the leading tab may be silent until somebody asks it, and half as
 * long again, so that not all ask; with its time to answer less than a debounce (20 s).
 */
const SILENCE = 8_000;

/** How long, in ms, a leading tab may take to answer another one. */
const ANSWER = 5_000;

/** By how much, in ms, a timer may be late in a page that runs. */
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
  /** It was asked in vain before, but this tab may have been stopped itself. */
  #doubtful = false;

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
      // A late timer is one of a hidden tab, or of one that was stopped and hears of the
      // answer only now.
      const late = this.#host.now() - due >= LATE && !this.#doubtful;
      this.#doubtful = late;
      if (late) this.#doubt();
      else this.#dead();
    });
  }

  /** The leading tab spoke. */
  heard(): void {
    this.stop();
    this.#doubtful = false;
    this.#cancel = this.#host.after(SILENCE * (1 + this.#host.random() / 2), this.#doubt);
  }

  stop(): void {
    this.#cancel?.();
    this.#cancel = undefined;
    this.#asking = false;
  }
}
