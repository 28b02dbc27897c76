import type { Feed, Message, Position, Reply, ShardSnapshot, Status, View } from "./contract.js";
import { MalformedError } from "./errors.js";
import { RELATIONS, type Availability, type Granularity, type ManualStatus, type Policy } from "./policy.js";

// Everything that comes from the network is checked here, so that the rest of the
// client can rely on the contract's types. Words that are not known (a status of a
// later release) are passed on; fields that are not known are not.

/** Reads an answer. */
export function decodeReply(bytes: Uint8Array): Reply {
  return { shards: new Fields(parse(bytes)).list("shards").map(snapshot) };
}

/** Reads a message of a viewer's stream. */
export function decodeMessage(bytes: Uint8Array): Message {
  const f = new Fields(parse(bytes));
  return { ...position(f), changes: f.list("changes").map(view) };
}

/** Reads the answer to an operation on a policy. */
export function decodePolicy(bytes: Uint8Array): Policy {
  const f = new Fields(parse(bytes));
  return {
    user: f.text("user"),
    ...given(f, RELATIONS),
    contacts: f.texts("contacts"),
    blocks: f.texts("blocks"),
    overrides: f.fields("overrides").all() as Map<string, Granularity>,
    groups: f.texts("groups"),
    statuses: f.list("statuses").map(manualStatus),
  };
}

function manualStatus(value: unknown): ManualStatus {
  const f = new Fields(value);
  const until = f.text("until");
  return {
    availability: f.text("availability") as Availability,
    ...given(f, ["text"]),
    priority: f.count("priority"),
    ...(until !== "" && { until: time(until) }),
  };
}

function time(text: string): Date {
  const at = new Date(text);
  if (Number.isNaN(at.getTime())) throw new MalformedError(`${JSON.stringify(text)} is not a time`);
  return at;
}

const strictUtf8 = new TextDecoder("utf-8", { fatal: true });

function parse(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(strictUtf8.decode(bytes));
  } catch (cause) {
    throw new MalformedError("not JSON in UTF-8", { cause });
  }
}

function snapshot(value: unknown): ShardSnapshot {
  const f = new Fields(value);
  return { ...position(f), views: f.list("views").map(view) };
}

function position(f: Fields): Position {
  return {
    shard: f.count("shard"),
    generation: f.count("generation"),
    seq: f.count("seq"),
    feed: f.text("feed") as Feed,
    reason: f.text("reason"),
    targets: f.count("targets"),
  };
}

const optional = ["state", "activity", "availability", "text", "observed_at_minute", "last_seen_minute"] as const;

function view(value: unknown): View {
  const f = new Fields(value);
  return {
    target: f.text("target"),
    status: f.text("status") as Status,
    version: f.count("version"),
    ...given(f, optional),
  };
}

/** Those of the fields that are not empty. */
function given(f: Fields, names: readonly string[]): Record<string, string> {
  return Object.fromEntries(names.map((name) => [name, f.text(name)] as const).filter(([, text]) => text !== ""));
}

/** The fields of a JSON object. Like in Go, one that is absent or null is empty. */
class Fields {
  readonly #fields: Readonly<Record<string, unknown>>;

  constructor(value: unknown) {
    if (typeof value !== "object" || value === null || Array.isArray(value)) {
      throw new MalformedError("not an object");
    }
    this.#fields = value as Record<string, unknown>;
  }

  text(name: string): string {
    return asText(this.#fields[name] ?? "", name);
  }

  texts(name: string): readonly string[] {
    return this.list(name).map((value) => asText(value, name));
  }

  fields(name: string): Fields {
    return new Fields(this.#fields[name] ?? {});
  }

  /** Every field, each of which is text. */
  all(): Map<string, string> {
    return new Map(Object.entries(this.#fields).map(([name, value]) => [asText(name, "a name"), asText(value, name)]));
  }

  count(name: string): number {
    const value = this.#fields[name] ?? 0;
    if (typeof value !== "number" || !Number.isSafeInteger(value) || value < 0) {
      throw new MalformedError(`${name} is not a number from 0 to 2^53-1`);
    }
    return value;
  }

  list(name: string): readonly unknown[] {
    const value = this.#fields[name] ?? [];
    if (!Array.isArray(value)) throw new MalformedError(`${name} is not a list`);
    return value;
  }
}

function asText(value: unknown, name: string): string {
  // Half a surrogate pair would be another id to everybody else.
  if (typeof value !== "string" || !value.isWellFormed()) throw new MalformedError(`${name} is not text`);
  return value;
}
