import type { Feed, Message, Position, Reply, ShardSnapshot, Status, View } from "./contract.js";
import { MalformedError } from "./errors.js";

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
  const given = optional.map((name) => [name, f.text(name)] as const).filter(([, text]) => text !== "");
  return {
    target: f.text("target"),
    status: f.text("status") as Status,
    version: f.count("version"),
    ...Object.fromEntries(given),
  };
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
    const value = this.#fields[name] ?? "";
    // Half a surrogate pair would be another id to everybody else.
    if (typeof value !== "string" || !value.isWellFormed()) throw new MalformedError(`${name} is not text`);
    return value;
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
