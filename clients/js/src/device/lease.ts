import { Alarm } from "../time.js";
import type { Election, Term } from "./election.js";
import type { Host, Shelf } from "./host.js";

/**
 * How long a lease holds, in ms: longer than the minute to which browsers stretch the
 * timers of hidden tabs.
 */
const TTL = 75_000;

const RENEWAL = 15_000;

/** How long a new lease must have stood, in ms, until nobody can overwrite it unseen. */
const SETTLED = 100;

interface Lease {
  readonly owner: string;
  readonly until: number;
}

/**
 * An election without Web Locks: whoever's lease stands in localStorage leads. Two tabs
 * may believe to lead for a moment, which costs a session that is opened in vain.
 */
export class Leases implements Election {
  readonly #host: Host;
  readonly #shelf: Shelf;
  readonly #key: string;

  constructor(host: Host, shelf: Shelf, name: string) {
    this.#host = host;
    this.#shelf = shelf;
    this.#key = `${name}:lease`;
  }

  async campaign(signal: AbortSignal, steal: boolean): Promise<Term> {
    const owner = this.#host.name();
    const alarm = new Alarm(this.#host.after);
    const ring = () => alarm.ring();
    const unwatch = this.#shelf.watch(this.#key, ring);
    signal.addEventListener("abort", ring);
    try {
      for (let force = steal; ; force = false) {
        signal.throwIfAborted();
        const wait = force ? 0 : this.#heldFor();
        if (wait > 0) await alarm.sleep(wait);
        else if (await this.#take(owner)) return this.#lead(owner);
      }
    } finally {
      unwatch();
      signal.removeEventListener("abort", ring);
    }
  }

  /** How long somebody's lease still holds; a clock that was set back must not make it eternal. */
  #heldFor(): number {
    const left = (this.#read()?.until ?? 0) - this.#host.wall();
    return left > TTL ? 0 : left;
  }

  #read(): Lease | undefined {
    try {
      const { owner, until } = JSON.parse(this.#shelf.get(this.#key) ?? "") as Partial<Lease>;
      return typeof owner === "string" && typeof until === "number" ? { owner, until } : undefined;
    } catch {
      return undefined;
    }
  }

  #write(owner: string): void {
    this.#shelf.set(this.#key, JSON.stringify({ owner, until: this.#host.wall() + TTL } satisfies Lease));
  }

  async #take(owner: string): Promise<boolean> {
    this.#write(owner);
    await new Alarm(this.#host.after).sleep(SETTLED * (1 + this.#host.random()));
    return this.#read()?.owner === owner;
  }

  #lead(owner: string): Term {
    const lost = new AbortController();
    let cancel = (): void => {};
    const end = () => {
      cancel();
      unwatch();
    };
    const check = () => {
      cancel();
      if (this.#read()?.owner !== owner) {
        end();
        lost.abort(new Error("another tab has taken the lease"));
        return;
      }
      this.#write(owner);
      cancel = this.#host.after(RENEWAL, check);
    };
    const unwatch = this.#shelf.watch(this.#key, check);
    check();
    const resign = () => {
      end();
      if (this.#read()?.owner === owner) this.#shelf.remove(this.#key);
    };
    return { lost: lost.signal, resign };
  }
}
