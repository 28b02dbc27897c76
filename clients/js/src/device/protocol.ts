import { DeviceError, malformed, refusalCode } from "./errors.js";

/** The version of the protocol is in its paths. */
export const PATH = "/api/v1/presence/";

/** An operation, and the last part of its path over HTTP. */
export const paths = { open: "session", heartbeat: "heartbeat", state: "state", close: "close" } as const;

export type Op = keyof typeof paths;

/** What a device runs on; reports of online time group by it, so the values should be few. */
export interface ClientInfo {
  readonly type?: string;
  readonly version?: string;
  readonly channel?: string;
  readonly region?: string;
}

/** What a device says of itself. */
export interface DeviceState {
  readonly foreground: boolean;
  /** There was input lately; it counts in the foreground only. */
  readonly active: boolean;
  /** A label of the application's, by which online time can be told apart. */
  readonly activity?: string;
}

export interface OpenRequest extends DeviceState {
  readonly device: string;
  /** The application's name of a session, by which it goes on after a reconnect. */
  readonly session: string;
  readonly client?: ClientInfo;
}

/** By what the gateway knows a session. */
export interface SessionKey {
  readonly sessionId: string;
  readonly sessionEpoch: number;
}

/** When the gateway wants to hear from a session again, in ms from now. */
export interface Answer {
  readonly nextHeartbeatInMs: number;
}

export interface Opened extends SessionKey, Answer {
  readonly idleThresholdMs: number;
  readonly idleTimeoutMs: number;
}

type Fields = Readonly<Record<string, unknown>>;

/** Reads JSON; what is no object is malformed. */
export function parse(text: unknown): Fields {
  let value: unknown;
  try {
    value = JSON.parse(String(text));
  } catch {
    throw malformed("the answer is not JSON");
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw malformed("the answer is no object");
  return value as Fields;
}

/** The answer to an open. */
export function opened(f: Fields): Opened {
  const { sessionId } = f;
  if (typeof sessionId !== "string" || sessionId === "") throw malformed("no sessionId");
  return {
    sessionId,
    sessionEpoch: integer(f, "sessionEpoch"),
    idleThresholdMs: duration(f, "idleThresholdMs"),
    idleTimeoutMs: duration(f, "idleTimeoutMs"),
    ...answer(f),
  };
}

/** The answer to a heartbeat or a state. */
export function answer(f: Fields): Answer {
  return { nextHeartbeatInMs: duration(f, "nextHeartbeatInMs") };
}

/** The refusal in an answer; undefined if it is none. */
export function refusal(f: Fields): DeviceError | undefined {
  const { error } = f;
  if (error === undefined) return undefined;
  const { code, message, retryAfterMs } = Object(error) as Fields;
  const wait = typeof retryAfterMs === "number" && retryAfterMs > 0 ? retryAfterMs : 0;
  return new DeviceError(refusalCode(code), String(message ?? code), wait);
}

function integer(f: Fields, name: string): number {
  const value = f[name];
  if (!Number.isSafeInteger(value)) throw malformed(`${name} is ${JSON.stringify(value)}`);
  return value as number;
}

/** No gateway wants to hear of a device more often; a mistake of it must not be a storm. */
const SHORTEST = 100;

function duration(f: Fields, name: string): number {
  const value = integer(f, name);
  if (value <= 0) throw malformed(`${name} is ${value}`);
  return Math.max(value, SHORTEST);
}
