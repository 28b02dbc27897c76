import { checkId } from "./token.js";

/** What an application may choose; times are milliseconds. */
export interface Options {
  /** The id of the user who looks. Several clients may share it. */
  readonly viewer: string;
  /** The prefix of the fabric's subjects; default "presence". */
  readonly prefix?: string;
  /**
   * How often the interest is renewed and the streams are compared with the fanout's;
   * default 30,000, a quarter of the fanout's interest TTL.
   */
  readonly refresh?: number;
  /** How long one request may take; default 5,000. */
  readonly timeout?: number;
  /**
   * How long the server or the fanout may be away before everything shows as unknown;
   * default 15,000.
   */
  readonly outage?: number;
  /**
   * Over how long clients spread their resyncs; default 1,000. Shorter repairs sooner
   * and lets the clients of a failed fanout come all at once.
   */
  readonly spread?: number;
  /** Hears of what went wrong; default: nobody. */
  readonly logger?: Logger;
}

/** Choices of one call. */
export interface CallOptions {
  /** Ends the waiting; the call rejects with its reason. */
  readonly signal?: AbortSignal;
}

/** The part of the console that a client uses. */
export type Logger = Pick<Console, "warn" | "debug">;

export type Settings = Required<Options>;

const silent: Logger = { warn: () => {}, debug: () => {} };

/** Checks the options and fills in the defaults. */
export function settle(o: Options): Settings {
  const settings: Settings = {
    viewer: o.viewer,
    prefix: o.prefix ?? "presence",
    refresh: o.refresh ?? 30_000,
    timeout: o.timeout ?? 5_000,
    outage: o.outage ?? 15_000,
    spread: o.spread ?? 1_000,
    logger: o.logger ?? silent,
  };
  checkId(settings.viewer, "viewer");
  if (!/^[a-z][a-z0-9_]{0,31}$/.test(settings.prefix)) {
    throw new RangeError(`prefix ${JSON.stringify(settings.prefix)} is not a lower-case name of up to 32 letters`);
  }
  for (const name of ["refresh", "timeout", "outage", "spread"] as const) {
    const ms = settings[name];
    if (!(ms >= (name === "spread" ? 0 : 1) && Number.isFinite(ms))) {
      throw new RangeError(`${name}: ${ms} is not a number of milliseconds`);
    }
  }
  return settings;
}
