/**
 * The stable codes of refusals. The first ones are the fanout's (and this client's,
 * where it can tell without asking); `forbidden` is the server's, for a token that
 * does not belong to the viewer; `closed` says that the client has ended.
 */
export type ErrorCode =
  | "invalid_request"
  | "invalid_id"
  | "no_targets"
  | "too_many_targets"
  | "too_large"
  | "too_many"
  | "unavailable"
  | "rate_limited"
  | "internal"
  | "forbidden"
  | "closed";

/** A refusal; `code` says why and never changes its meaning. */
export class RollcallError extends Error {
  override readonly name = "RollcallError";
  readonly code: ErrorCode;

  constructor(code: ErrorCode, message: string, options?: ErrorOptions) {
    super(`${code}: ${message}`, options);
    this.code = code;
  }
}

/** The refusals that pass by themselves. */
const passing: ReadonlySet<ErrorCode> = new Set<ErrorCode>(["unavailable", "internal", "rate_limited"]);

/** Says that trying again does not help. */
export function refused(err: unknown): err is RollcallError {
  return err instanceof RollcallError && !passing.has(err.code);
}

/** Nobody can be asked because the connection is down. */
export class DisconnectedError extends Error {
  override readonly name = "DisconnectedError";
  constructor() {
    super("disconnected");
  }
}

/**
 * Says that an error is one of nats-core's. It goes by the name, because an application
 * that connects by itself may have a copy of nats-core of its own, and classes of its own.
 */
export function isNatsError<N extends "PermissionViolationError" | "RequestError" | "TimeoutError">(
  err: unknown,
  name: N,
): err is Error & { readonly name: N } {
  return err instanceof Error && err.name === name;
}

/** Data that does not follow the contract. */
export class MalformedError extends Error {
  override readonly name = "MalformedError";
}
