import type { Client } from "../client.js";

/** The part of a client that is used here. */
export type Watching = Pick<Client, "subscribe" | "unsubscribe" | "states" | "on">;

/**
 * How long, in ms, a target is watched after its last component has gone: what is taken
 * away is often put back, as when one page follows another.
 */
const LINGER = 1_000;

/** Watches for many components, of which several may want the same target. */
export class Watches {
  readonly #client: Watching;
  readonly #holders = new Map<string, Set<() => void>>();
  readonly #answered = new Set<string>();
  readonly #refused = new Map<string, Error>();
  #working = false;

  private static readonly all = new WeakMap<Watching, Watches>();

  /** One for each client. */
  static of(client: Watching): Watches {
    let watches = Watches.all.get(client);
    if (!watches) Watches.all.set(client, (watches = new Watches(client)));
    return watches;
  }

  private constructor(client: Watching) {
    this.#client = client;
    client.on(({ target }) => this.#tell([target]));
  }

  /** Watches the targets until the function that it returns is called. */
  hold(targets: readonly string[], changed: () => void): () => void {
    const mine = () => changed();
    for (const t of targets) {
      const holders = this.#holders.get(t);
      if (holders) holders.add(mine);
      else this.#holders.set(t, new Set([mine]));
    }
    void this.#work();
    return () => {
      for (const t of targets) this.#holders.get(t)?.delete(mine);
      setTimeout(() => void this.#work(), LINGER);
    };
  }

  /** Whether the first answer is in. */
  answered(target: string): boolean {
    return this.#answered.has(target);
  }

  /** Why a target is not watched. */
  refusal(target: string): Error | undefined {
    return this.#refused.get(target);
  }

  #tell(targets: readonly string[]): void {
    const told = new Set<() => void>();
    for (const t of targets) for (const changed of this.#holders.get(t) ?? []) told.add(changed);
    for (const changed of told) changed();
  }

  /** One request at a time, so that none overtakes another. */
  async #work(): Promise<void> {
    if (this.#working) return;
    this.#working = true;
    try {
      while ((await this.#add()) || (await this.#remove()));
    } finally {
      this.#working = false;
    }
  }

  async #add(): Promise<boolean> {
    const missing = [...this.#holders.keys()].filter((t) => !this.#answered.has(t) && !this.#refused.has(t));
    if (missing.length === 0) return false;
    try {
      await this.#client.subscribe(missing);
      for (const t of missing) this.#answered.add(t);
    } catch (err) {
      for (const t of missing) this.#refused.set(t, err as Error);
    }
    this.#tell(missing);
    return true;
  }

  async #remove(): Promise<boolean> {
    const spare = [...this.#holders].filter(([, holders]) => holders.size === 0).map(([t]) => t);
    if (spare.length === 0) return false;
    const watched = spare.filter((t) => this.#answered.delete(t));
    for (const t of spare) {
      this.#holders.delete(t);
      this.#refused.delete(t);
    }
    await this.#client.unsubscribe(watched).catch(() => {}); // it does no harm, and ends with the client's interest
    return true;
  }
}
