/** The policies of users, as `subjects/policy.go` describes them. */

/**
 * The operations that a user may carry out on its own policy. `join`, `leave` and
 * `forget` are the application's backend's: a group shows more of others.
 */
export type PolicyOp =
  | "get"
  | "set"
  | "allow"
  | "reset"
  | "block"
  | "unblock"
  | "contact"
  | "uncontact"
  | "status"
  | "clear";

/** The most users of one call, and of each list of a policy. */
export const MAX_POLICY_USERS = 10_000;

/**
 * How much may be known: nothing, not even that the user exists; that it exists; online,
 * recently or long ago; everything.
 */
export type Granularity = "absent" | "hidden" | "coarse" | "exact";

export const GRANULARITIES: readonly Granularity[] = ["absent", "hidden", "coarse", "exact"];

/** `available` leaves the word to the devices; `invisible` shows an offline user to others. */
export type Availability = "available" | "away" | "dnd" | "invisible";

/** The relations, the closest one first, which counts. */
export const RELATIONS = ["contact", "member", "everyone"] as const;

/** How much may be known by relation. One that is absent has the fabric's default. */
export interface Relations {
  /** For the user's contacts. */
  readonly contact?: Granularity;
  /** For those who share a group with the user. */
  readonly member?: Granularity;
  /** For all others. */
  readonly everyone?: Granularity;
}

/** Relations to change; "default" goes back to the fabric's, and what is absent stays. */
export type NewRelations = { readonly [R in keyof Relations]: Granularity | "default" };

/** What a user says of itself. */
export interface ManualStatus {
  readonly availability: Availability;
  readonly text?: string;
  /** From 0 to 1000. Of several statuses the one with the highest counts. */
  readonly priority: number;
  /** When it ends; never if absent. */
  readonly until?: Date;
}

/** A status to set; one of the same priority is replaced. */
export interface NewStatus {
  readonly availability: Availability;
  /** At most 128 bytes of UTF-8 without control characters. */
  readonly text?: string;
  /** From 0, the default, to 1000. */
  readonly priority?: number;
  /** When it ends, as a date or in milliseconds since 1970; never if absent. */
  readonly until?: Date | number;
}

/**
 * Who may know what of a user, as the user sees it. A block comes before an override, an
 * override before the relation.
 */
export interface Policy extends Relations {
  readonly user: string;
  readonly contacts: readonly string[];
  readonly blocks: readonly string[];
  /** What single viewers may know, by their ids. */
  readonly overrides: ReadonlyMap<string, Granularity>;
  readonly groups: readonly string[];
  /** Those that have not ended, the one that counts first. */
  readonly statuses: readonly ManualStatus[];
}
