import type { Msg, NatsConnection } from "@nats-io/nats-core";
import { ERROR_CODE_HEADER, ERROR_HEADER, type Op, type Reply } from "./contract.js";
import { decodeReply } from "./decode.js";
import { RollcallError, isNatsError, type ErrorCode } from "./errors.js";
import type { Link } from "./link.js";
import { unlessAborted } from "./time.js";

const nothing: Reply = { shards: [] };

/** Sends the requests of one viewer, one after the other. */
export class Requests {
  readonly #nc: NatsConnection;
  readonly #link: Link;
  readonly #subject: (op: Op) => string;
  readonly #timeout: number;
  #last: Promise<unknown> = Promise.resolve();

  constructor(nc: NatsConnection, link: Link, subject: (op: Op) => string, timeout: number) {
    this.#nc = nc;
    this.#link = link;
    this.#subject = subject;
    this.#timeout = timeout;
  }

  refresh(signal: AbortSignal): Promise<Reply> {
    return this.#inTurn(signal, () => this.#send("refresh", ""));
  }

  /**
   * Which targets a request names is decided when it is its turn; none means that there
   * is nothing to ask any more.
   */
  ask(op: Exclude<Op, "refresh">, targets: () => readonly string[], signal: AbortSignal): Promise<Reply> {
    return this.#inTurn(signal, () => {
      const names = targets();
      return names.length === 0 ? Promise.resolve(nothing) : this.#send(op, JSON.stringify({ targets: names }));
    });
  }

  /** Waits for its turn; the turn ends with the signal, and when the connection is lost. */
  #inTurn(signal: AbortSignal, send: () => Promise<Reply>): Promise<Reply> {
    const mine = this.#last.then(async () => {
      const either = AbortSignal.any([signal, this.#link.down]);
      either.throwIfAborted();
      return unlessAborted(send(), either);
    });
    this.#last = mine.catch(() => {});
    return unlessAborted(mine, signal);
  }

  async #send(op: Op, body: string): Promise<Reply> {
    return decodeReply(await request(this.#nc, this.#subject(op), body, this.#timeout));
  }
}

/** Sends one request and returns the body of its answer. A refusal is a {@link RollcallError}. */
export async function request(nc: NatsConnection, subject: string, body: string, timeout: number): Promise<Uint8Array> {
  try {
    return unlessRefused(await nc.request(subject, body, { timeout }));
  } catch (err) {
    const cause = isNatsError(err, "RequestError") ? err.cause : err;
    if (isNatsError(cause, "PermissionViolationError")) throw forbidden(cause);
    throw err;
  }
}

/** The server does not let this connection be the viewer. */
export function forbidden(cause: Error): RollcallError {
  return new RollcallError("forbidden", cause.message, { cause });
}

function unlessRefused(m: Msg): Uint8Array {
  const code = m.headers?.get(ERROR_CODE_HEADER) ?? "";
  if (code === "") return m.data;
  throw new RollcallError(code as ErrorCode, m.headers?.get(ERROR_HEADER) ?? "");
}
