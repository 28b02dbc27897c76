/** What the gateway says when it refuses. */
const answered = [
  "UNREGISTERED",
  "UNAUTHENTICATED",
  "FORBIDDEN",
  "INVALID",
  "TOO_LARGE",
  "RATE_LIMITED",
  "UNAVAILABLE",
  "NOT_FOUND",
  "METHOD_NOT_ALLOWED",
  "INTERNAL",
] as const;

/**
 * The stable codes of what can go wrong with a device. Those of the gateway come first;
 * the others are found out here: no answer, an answer that is none, an application that
 * gave no token, a session that ended because of silence (`DEAD`), because the gateway
 * stops (`DRAINING`), or because the device is connected elsewhere (`SUPERSEDED`).
 */
export type DeviceErrorCode =
  | (typeof answered)[number]
  | "UNREACHABLE"
  | "MALFORMED"
  | "NO_TOKEN"
  | "DEAD"
  | "DRAINING"
  | "SUPERSEDED";

/** Something went wrong with a device; `code` says what and never changes its meaning. */
export class DeviceError extends Error {
  override readonly name = "DeviceError";
  readonly code: DeviceErrorCode;
  /** How long the gateway asks to be left alone, in ms. */
  readonly retryAfter: number;

  constructor(code: DeviceErrorCode, message: string, retryAfter = 0, options?: ErrorOptions) {
    super(`${code}: ${message}`, options);
    this.code = code;
    this.retryAfter = retryAfter;
  }
}

export function unreachable(what: string, cause?: unknown): DeviceError {
  return new DeviceError("UNREACHABLE", what, 0, { cause });
}

export function malformed(what: string): DeviceError {
  return new DeviceError("MALFORMED", what);
}

/** Whatever was thrown, as an error of the device. */
export function deviceError(err: unknown): DeviceError {
  return err instanceof DeviceError ? err : unreachable(String(err), err);
}

/** The code of a refusal; one that is not known is the gateway's own trouble. */
export function refusalCode(code: unknown): DeviceErrorCode {
  return answered.find((known) => known === code) ?? "INTERNAL";
}
