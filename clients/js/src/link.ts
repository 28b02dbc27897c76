import type { NatsConnection } from "@nats-io/nats-core";
import { DisconnectedError } from "./errors.js";
import { now, unlessAborted } from "./time.js";

/** Follows a connection to the server through its outages. */
export class Link {
  /** When the current outage began, undefined while there is none. */
  downSince: number | undefined;
  /** How many outages have ended. */
  reconnects = 0;
  readonly #nc: NatsConnection;
  readonly #changed: () => void;
  #outage = new AbortController();
  readonly #waiting = new Set<() => void>();

  constructor(nc: NatsConnection, changed: () => void) {
    this.#nc = nc;
    this.#changed = changed;
  }

  /** Follows the connection until it is closed for good, or what comes after the end. */
  async follow(ended: AbortSignal): Promise<void> {
    for await (const { type } of this.#nc.status()) {
      if (ended.aborted) return;
      if (type === "disconnect") this.#lost();
      if (type === "reconnect") this.#found();
    }
  }

  #lost(): void {
    if (this.downSince !== undefined) return; // every failed attempt is told as well
    this.downSince = now();
    this.#outage.abort(new DisconnectedError());
    this.#changed();
  }

  #found(): void {
    if (this.downSince === undefined) return;
    this.downSince = undefined;
    this.reconnects++;
    this.#outage = new AbortController();
    for (const resolve of this.#waiting) resolve();
    this.#waiting.clear();
    this.#changed();
  }

  /** Aborted when the connection is lost: what was asked will not be answered. */
  get down(): AbortSignal {
    return this.#outage.signal;
  }

  /** Resolves when the connection is there. */
  async up(signal: AbortSignal): Promise<void> {
    if (this.downSince === undefined) return;
    const found = new Promise<void>((resolve) => this.#waiting.add(resolve));
    await unlessAborted(found, signal);
  }
}
