/**
 * The JSON of viewers, as `subjects/viewer.go` describes it. Versions, generations
 * and seqs are numbers below 2^53.
 */

export type Op = "subscribe" | "unsubscribe" | "get" | "refresh";

/** The most targets of one request, and of one viewer. */
export const MAX_TARGETS = 10_000;

/** The header of an answer that is a refusal, and the one with its message. */
export const ERROR_CODE_HEADER = "Nats-Service-Error-Code";
export const ERROR_HEADER = "Nats-Service-Error";

/**
 * What a viewer is told of a target. `recently` and `long_ago` are what a coarse
 * viewer sees in place of `offline`; `withdrawn` is the last that is said of a target
 * which the viewer may no longer see or which is gone.
 */
export type Status = "online" | "offline" | "recently" | "long_ago" | "unknown" | "withdrawn";

/** What one viewer may know of one target. What is not known is absent. */
export interface View {
  readonly target: string;
  readonly status: Status;
  /** While the target is online. */
  readonly state?: "active" | "idle" | "background";
  /** The application's label for what the target is doing. */
  readonly activity?: string;
  /** What the target says of itself while online; `invisible` only to oneself. */
  readonly availability?: "away" | "dnd" | "invisible";
  /** What the target says of itself in its own words. */
  readonly text?: string;
  /** Only grows for one target and viewer. */
  readonly version: number;
  /** When the fabric saw the change, an RFC 3339 time cut to the minute. */
  readonly observed_at_minute?: string;
  /** The last sign of life of a target that is offline. */
  readonly last_seen_minute?: string;
}

/** While a feed is stalled every view of its shard is unknown. */
export type Feed = "live" | "stalled";

/** Where a viewer's stream in one shard stands. */
export interface Position {
  readonly shard: number;
  readonly generation: number;
  /** The number of the last message sent on the stream. */
  readonly seq: number;
  readonly feed: Feed;
  /** Why the feed is stalled. */
  readonly reason: string;
  /** How many targets the viewer is subscribed to in the shard. */
  readonly targets: number;
}

export interface ShardSnapshot extends Position {
  readonly views: readonly View[];
}

/** The answer to every operation. */
export interface Reply {
  readonly shards: readonly ShardSnapshot[];
}

/** A message of a viewer's stream. */
export interface Message extends Position {
  readonly changes: readonly View[];
}
