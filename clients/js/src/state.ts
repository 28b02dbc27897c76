import type { View } from "./contract.js";

/** This client has lost the server. */
export const REASON_DISCONNECTED = "disconnected";
/** Requests are not answered. */
export const REASON_FANOUT_SILENT = "fanout_silent";

/** What the viewer sees of a target. */
export interface State extends View {
  /**
   * Why the status is `unknown` although the viewer may know it: `disconnected` and
   * `fanout_silent` are this client's, others the fanout's. A target that the viewer
   * may only know to exist is unknown without a reason.
   */
  readonly reason?: string;
  /** When this client learned of it, in milliseconds since 1970 by its own clock. */
  readonly received: number;
}

/** How a target is shown from now on. */
export interface Change extends State {
  /**
   * When it began to be shown so: later than `received` if it is unknown because
   * the fabric fell silent, or known again.
   */
  readonly at: number;
}

/** Says whether it is shown at all. */
export function isShown(state: State | undefined): state is State {
  return state !== undefined && state.status !== "withdrawn";
}

const compared = [
  "status",
  "reason",
  "state",
  "activity",
  "availability",
  "text",
  "observed_at_minute",
  "last_seen_minute",
] as const;

/** Ignores the version: saying the same again is no change. */
export function looksSame(a: State, b: State): boolean {
  return compared.every((field) => a[field] === b[field]);
}
