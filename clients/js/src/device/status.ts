import type { DeviceErrorCode } from "./errors.js";
import type { Transport } from "./line.js";
import type { DeviceState } from "./protocol.js";

/**
 * How a device is doing: `connecting` at first and while the gateway is away,
 * `connected` while it has a session, `refused` if the gateway does not let it in
 * (it tries again every few minutes), `superseded` if the same device is connected
 * elsewhere, `closed` after its end.
 */
export type Phase = "connecting" | "connected" | "refused" | "superseded" | "closed";

/** What the tabs of a browser know of their device. */
export interface SharedStatus extends DeviceState {
  readonly phase: Phase;
  /** The id of the device, once it is known. */
  readonly device?: string;
  /** How it is connected, while it is. */
  readonly transport?: Transport;
  /** What went wrong last, until it is connected again. */
  readonly error?: { readonly code: DeviceErrorCode; readonly message: string };
}

/** How a device is doing, as one tab sees it. */
export interface DeviceStatus extends SharedStatus {
  /** This tab speaks for the device. */
  readonly leading: boolean;
}

/** Says that there is nothing to tell. */
export function alike(a: DeviceStatus, b: DeviceStatus): boolean {
  const whole = (status: DeviceStatus) => JSON.stringify(Object.entries(status).sort(([x], [y]) => (x < y ? -1 : 1)));
  return whole(a) === whole(b);
}
