import type { After } from "../time.js";

/**
 * What happens to a page: it is shown or hidden, somebody uses it, it is left (for
 * another page, or closed), stopped by the browser until it wakes (which a page also
 * does that is left and come back to), and it has a network or none.
 */
export type Happening = "shown" | "hidden" | "input" | "left" | "frozen" | "woken" | "online" | "offline";

/** A part of localStorage that tabs of one origin share. */
export interface Shelf {
  get(key: string): string | undefined;
  set(key: string, value: string): void;
  remove(key: string): void;
  /** Hears of what other tabs do to the key, until the function that it returns is called. */
  watch(key: string, changed: () => void): () => void;
}

/** A part of BroadcastChannel: what one says, all others of the same name hear. */
export interface Channel {
  say(message: unknown): void;
  hear(listener: (message: unknown) => void): void;
  close(): void;
}

/** What a device needs of the browser that it runs in, so that tests can have another. */
export interface Host {
  /** Milliseconds, by a clock that never goes back and does not stop while the machine sleeps. */
  now(): number;
  /** Milliseconds since 1970, which all tabs agree about and people may change. */
  wall(): number;
  after: After;
  /** A random number below 1. */
  random(): number;
  /** A random name that nobody else has. */
  name(): string;
  /** Undefined where there is no WebSocket. */
  socket: ((url: string) => WebSocket) | undefined;
  fetch: typeof fetch;
  /** Sends although the page is being left. */
  beacon(url: string, body: string): boolean;
  shelf: Shelf | undefined;
  /** Undefined where there are no Web Locks, as in pages that came without TLS. */
  locks: Pick<LockManager, "request"> | undefined;
  channel: ((name: string) => Channel) | undefined;
  shown(): boolean;
  online(): boolean;
  listen(listener: (what: Happening) => void): () => void;
}
