import type { State } from "../state.js";
import { Watches, type Watching } from "./watches.js";

/** What a component may know of its targets. */
export interface Presence {
  /** As in the states of a client: one that is not known or not to be seen is not in it. */
  readonly states: ReadonlyMap<string, State>;
  /** The first answers for all targets are in. */
  readonly ready: boolean;
  /** Why some of the targets are not watched. */
  readonly error?: Error;
}

/** Before anything is known. */
export const nothing: Presence = { states: new Map(), ready: false };

/** The presence of some targets as a store in React's sense: a snapshot is the same until something changes. */
export class PresenceStore {
  readonly #client: Watching;
  readonly #targets: readonly string[];
  #snapshot: Presence | undefined;

  constructor(client: Watching, targets: readonly string[]) {
    this.#client = client;
    this.#targets = targets;
  }

  readonly subscribe = (changed: () => void): (() => void) => {
    this.#snapshot = undefined; // what changed before is not told any more
    return Watches.of(this.#client).hold(this.#targets, () => {
      this.#snapshot = undefined;
      changed();
    });
  };

  readonly snapshot = (): Presence => (this.#snapshot ??= this.#read());

  #read(): Presence {
    const watches = Watches.of(this.#client);
    const states = new Map<string, State>();
    for (const t of this.#targets) {
      const state = this.#client.states.get(t);
      if (state) states.set(t, state);
    }
    const error = this.#targets.map((t) => watches.refusal(t)).find((err) => err);
    return { states, ready: this.#targets.every((t) => watches.answered(t)), ...(error && { error }) };
  }
}
