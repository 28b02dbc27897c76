import { checkId } from "../token.js";
import type { Logger } from "../settings.js";
import { Address, type Transport } from "./line.js";
import type { ClientInfo } from "./protocol.js";

/** Who one is to the gateway: a bearer token. */
export type BearerToken = string | (() => string | Promise<string>);

/** What an application may choose; times are milliseconds. */
export interface DeviceOptions {
  /** Where the gateway is: "https://presence.example.org", with a path if it is behind one. */
  readonly url: string;
  /**
   * The id of the user, as in the token. Tabs of one user, one gateway and one origin
   * are one device.
   */
  readonly user: string;
  /**
   * Left out for a gateway that knows no identities. A function is asked whenever a
   * session is opened, so that the device outlives its tokens.
   */
  readonly token?: BearerToken;
  /** The id of the device; default: one that is made once and kept by the browser. */
  readonly device?: string;
  /** What the device runs on; default: a browser. */
  readonly client?: ClientInfo;
  /** A label of what the user does, at first; {@link Device.activity} changes it. */
  readonly activity?: string;
  /** Default "auto": by WebSocket, and by HTTP while there is no WebSocket. */
  readonly transport?: Transport | "auto";
  /** Whether the tabs of a browser are one device; default true. Otherwise each is one of its own. */
  readonly share?: boolean;
  /** How long one answer may take; default 10,000. */
  readonly timeout?: number;
  /** Hears of what went wrong; default: nobody. */
  readonly logger?: Logger;
}

export interface DeviceSettings {
  readonly address: Address;
  readonly user: string;
  readonly token: () => Promise<string>;
  readonly device: string | undefined;
  readonly client: ClientInfo;
  readonly activity: string | undefined;
  readonly transport: Transport | "auto";
  readonly share: boolean;
  readonly timeout: number;
  readonly logger: Logger;
}

/** The longest label of an activity, in bytes of UTF-8. */
export const MAX_ACTIVITY = 64;

/** Checks the options and fills in the defaults. */
export function settle(o: DeviceOptions): DeviceSettings {
  checkId(o.user, "user");
  if (o.device !== undefined) checkId(o.device, "device");
  checkActivity(o.activity);
  const { transport = "auto", timeout = 10_000, token = "" } = o;
  if (!["auto", "websocket", "http"].includes(transport)) throw new RangeError(`transport ${JSON.stringify(transport)} is not known`);
  if (!(timeout > 0 && Number.isFinite(timeout))) throw new RangeError(`timeout: ${timeout} is not a number of milliseconds`);
  return {
    address: new Address(o.url),
    user: o.user,
    token: async () => (typeof token === "function" ? token() : token),
    device: o.device,
    client: { type: "web", ...o.client },
    activity: o.activity,
    transport,
    share: o.share ?? true,
    timeout,
    logger: o.logger ?? { warn: () => {}, debug: () => {} },
  };
}

/** Fails for a label that the gateway would refuse. */
export function checkActivity(label: string | undefined): void {
  if (label === undefined) return;
  const { length } = new TextEncoder().encode(label);
  if (length > MAX_ACTIVITY) throw new RangeError(`activity of ${length} bytes, the limit is ${MAX_ACTIVITY}`);
  if (!label.isWellFormed()) throw new RangeError("activity has half a surrogate pair");
}
