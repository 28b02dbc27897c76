import type { DeviceError, DeviceErrorCode } from "./errors.js";

/** What to do after something went wrong. */
export interface Recovery {
  /** The gateway will not change its mind soon; somebody should know. */
  readonly refused: boolean;
  /** How long to wait before the next attempt, in ms. */
  readonly after: number;
}

/**
 * Pauses in ms: any time up to `first`, which doubles with every failure up to `most`,
 * with nothing in common with the pauses of other devices ("full jitter", Brooker 2015).
 */
interface Pauses {
  readonly first: number;
  readonly most: number;
}

/**
 * The gateway or the way to it is in trouble. Nobody pauses for as long as a debounce
 * (20 s), so that a gateway that comes back has all its devices back before it ends.
 */
const trouble: Pauses = { first: 1_000, most: 15_000 };

/**
 * The gateway knows nothing of the session, as after a restart. Registering must be
 * over before an idle timeout ends, even if it comes again and again because a balancer
 * sends every request to another gateway.
 */
const again: Pauses = { first: 2_000, most: 10_000 };

/** A gateway that stops has many devices, and the others must bear them. */
const drained: Pauses = { first: 5_000, most: 15_000 };

/** An expired token; the next one may be better. */
const expired: Pauses = { first: 1_000, most: 1_000 };

/**
 * A refusal lasts until somebody changes something, here or at the gateway, so of these
 * pauses only the upper half is used.
 */
const refusal: Pauses = { first: 120_000, most: 600_000 };

const refusing: ReadonlySet<DeviceErrorCode> = new Set<DeviceErrorCode>([
  "UNAUTHENTICATED",
  "FORBIDDEN",
  "INVALID",
  "TOO_LARGE",
  "NOT_FOUND",
  "METHOD_NOT_ALLOWED",
]);

/** Decides, from what went wrong and how often before without success in between. */
export function recovery(err: DeviceError, failures: number, random: () => number): Recovery {
  const refused = refusing.has(err.code) && !(err.code === "UNAUTHENTICATED" && failures === 0);
  const { first, most } = pausesOf(err.code, refused);
  const share = refused ? (1 + random()) / 2 : random();
  const pause = share * Math.min(first * 2 ** failures, most);
  // Those who were all told the same time must not come all at that time.
  return { refused, after: err.retryAfter > 0 ? err.retryAfter + Math.min(pause, err.retryAfter) : pause };
}

function pausesOf(code: DeviceErrorCode, refused: boolean): Pauses {
  if (refused) return refusal;
  switch (code) {
    case "UNAUTHENTICATED":
      return expired;
    case "UNREGISTERED":
    case "DEAD":
      return again;
    case "DRAINING":
      return drained;
    default:
      return trouble;
  }
}

/** Says that the session may go on all the same, if the way to the gateway does. */
export function passing(err: DeviceError): boolean {
  return ["RATE_LIMITED", "UNAVAILABLE", "INTERNAL", "UNREACHABLE"].includes(err.code);
}
