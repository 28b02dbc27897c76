import type { DeviceError } from "./errors.js";
import type { Op } from "./protocol.js";

/** How a device reaches the gateway. */
export type Transport = "websocket" | "http";

/** A way to one gateway. */
export interface Line {
  readonly transport: Transport;
  /** Why it has ended; undefined while it can be used. */
  readonly fault: DeviceError | undefined;
  /** Resolves to the answer; rejects with a {@link DeviceError}. */
  ask(op: Op, body: object): Promise<Readonly<Record<string, unknown>>>;
  close(): void;
}

/** Where a gateway is to be found. */
export class Address {
  readonly #base: string;

  constructor(url: string) {
    const u = new URL(url, globalThis.location?.href);
    u.protocol = u.protocol.replace(/^ws/, "http");
    if (u.protocol !== "https:" && u.protocol !== "http:") throw new RangeError(`url ${url} is not of http, https, ws or wss`);
    if (u.search || u.hash || u.username || u.password) throw new RangeError(`url ${url} may only have a host and a path`);
    this.#base = u.href.replace(/\/+$/, "");
  }

  /** Of a path over HTTP. */
  http(path: string): string {
    return this.#base + path;
  }

  /** Of a path over WebSocket. */
  socket(path: string): string {
    return this.#base.replace(/^http/, "ws") + path;
  }
}
