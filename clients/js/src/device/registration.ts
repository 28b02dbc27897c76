import type { Line } from "./line.js";
import type { DeviceState, Opened, SessionKey } from "./protocol.js";

/** A session as the gateway has it, and what it was told. */
export class Registration {
  readonly line: Line;
  readonly key: SessionKey;
  readonly idleThreshold: number;
  /** When the next heartbeat is due. */
  beatAt: number;
  /** What the gateway was told last. */
  told: DeviceState;
  readonly #idleTimeout: number;
  #seq = 0;
  /** When it last said something that was answered. */
  #heardAt: number;

  constructor(line: Line, o: Opened, told: DeviceState, saidAt: number, now: number) {
    this.line = line;
    this.key = { sessionId: o.sessionId, sessionEpoch: o.sessionEpoch };
    this.idleThreshold = o.idleThresholdMs;
    this.#idleTimeout = o.idleTimeoutMs;
    this.told = told;
    this.#heardAt = saidAt;
    this.beatAt = now + o.nextHeartbeatInMs;
  }

  /** The number of the next heartbeat. */
  next(): number {
    return ++this.#seq;
  }

  answered(told: DeviceState, saidAt: number, beatAt: number): void {
    this.told = told;
    this.#heardAt = saidAt;
    this.beatAt = beatAt;
  }

  /** The gateway must have ended it for silence. */
  dead(now: number): boolean {
    return now - this.#heardAt >= this.#idleTimeout;
  }
}
