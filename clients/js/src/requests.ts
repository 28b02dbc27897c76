import type { Msg, NatsConnection } from "@nats-io/nats-core";
import { ERROR_CODE_HEADER, ERROR_HEADER, type Op, type Reply } from "./contract.js";
import { decodeReply } from "./decode.js";
import { RollcallError, isNatsError, type ErrorCode } from "./errors.js";
import type { Link } from "./link.js";
import { pause, unlessAborted } from "./time.js";

/**
 * How often a request is sent in the first half of its timeout. NATS may hand it to a
 * fanout that hangs, and the next time to another one.
 */
const TRIES = 5;

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
    return this.#inTurn(signal, (turn) => this.#send("refresh", "", turn));
  }

  /**
   * Which targets a request names is decided when it is its turn; none means that there
   * is nothing to ask any more.
   */
  ask(op: Exclude<Op, "refresh">, targets: () => readonly string[], signal: AbortSignal): Promise<Reply> {
    return this.#inTurn(signal, (turn) => {
      const names = targets();
      return names.length === 0 ? Promise.resolve(nothing) : this.#send(op, JSON.stringify({ targets: names }), turn);
    });
  }

  /** Waits for its turn; the turn ends with the signal, and when the connection is lost. */
  #inTurn(signal: AbortSignal, send: (turn: AbortSignal) => Promise<Reply>): Promise<Reply> {
    const mine = this.#last.then(async () => {
      const either = AbortSignal.any([signal, this.#link.down]);
      either.throwIfAborted();
      return unlessAborted(send(either), either);
    });
    this.#last = mine.catch(() => {});
    return unlessAborted(mine, signal);
  }

  /** Decodes what comes first of any of the tries. */
  async #send(op: Op, body: string, turn: AbortSignal): Promise<Reply> {
    const answered = new AbortController();
    const over = AbortSignal.any([turn, answered.signal]);
    const tries = Array.from({ length: TRIES }, async (_, n) => {
      const after = (n * this.#timeout) / TRIES / 2;
      if (n > 0) await pause(after, over);
      return request(this.#nc, this.#subject(op), body, this.#timeout - after);
    });
    try {
      return decodeReply(await Promise.race(tries));
    } finally {
      answered.abort();
    }
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
