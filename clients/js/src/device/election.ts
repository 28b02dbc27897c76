import type { Host } from "./host.js";
import { Leases } from "./lease.js";

/** The time for which a tab leads. */
export interface Term {
  /** Aborted when another tab has taken the lead. */
  readonly lost: AbortSignal;
  /** Gives up the lead, at once and for good. */
  resign(): void;
}

/** Finds one tab among all that campaign under the same name. */
export interface Election {
  /**
   * Resolves when this tab leads; rejects when the signal is aborted. To steal is to
   * take the lead from a tab that does not react any more.
   */
  campaign(signal: AbortSignal, steal: boolean): Promise<Term>;
}

/** The best election that the browser allows; undefined if its tabs cannot know of each other. */
export function election(host: Host, name: string): Election | undefined {
  if (!host.channel || !host.shelf) return undefined; // no common device without a common shelf
  return host.locks ? new Locks(host.locks, name) : new Leases(host, host.shelf, name);
}

/** By Web Locks: whoever holds the lock leads, and the browser takes it from those who die. */
class Locks implements Election {
  readonly #locks: Pick<LockManager, "request">;
  readonly #name: string;

  constructor(locks: Pick<LockManager, "request">, name: string) {
    this.#locks = locks;
    this.#name = name;
  }

  campaign(signal: AbortSignal, steal: boolean): Promise<Term> {
    return new Promise((resolve, reject) => {
      const lost = new AbortController();
      const hold = () => new Promise<void>((resign) => resolve({ lost: lost.signal, resign }));
      this.#locks.request(this.#name, steal ? { steal } : { signal }, hold).catch((err: unknown) => {
        lost.abort(err); // stolen
        reject(err); // or never had
      });
    });
  }
}

/** For a tab that knows of no other. */
export class Alone implements Election {
  async campaign(): Promise<Term> {
    return { lost: new AbortController().signal, resign: () => {} };
  }
}
