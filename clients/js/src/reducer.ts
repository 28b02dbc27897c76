import type { Message, Position, Reply, View } from "./contract.js";
import { Shard } from "./shard.js";
import { isShown, looksSame, type Change, type State } from "./state.js";

/** What an answer is good for. */
export interface Answer {
  /** What the request named. */
  readonly asked: readonly string[];
  /**
   * The shards for which this is the first answer of a resync: it stands for
   * everything said before it.
   */
  readonly base?: ReadonlySet<number>;
  /**
   * Marks the answer to a get. It tells nothing of shards in which nothing is
   * subscribed to.
   */
  readonly once?: boolean;
}

/** Orders what the owners of one shard say. */
type Stamp = Pick<Position, "generation" | "seq">;

const beginning: Stamp = { generation: 0, seq: 0 };

function atMost(a: Stamp, b: Stamp): boolean {
  return a.generation < b.generation || (a.generation === b.generation && a.seq <= b.seq);
}

/** What is known of one target. */
class Entry {
  /** -1 until a view has told it. */
  shard = -1;
  view: View | undefined;
  visible = false;
  /** Of the answer or message that the view came with. */
  stamp = beginning;
  at = 0;
  /**
   * Where the shards stood when an answer left the target out, because such an
   * answer does not tell the target's shard. What was sent before is outdated.
   */
  absent: ReadonlyMap<number, Stamp> = new Map();
  /** As last returned by {@link Reducer.changes}. */
  shown: State | undefined;

  get version(): number {
    return this.view?.version ?? 0;
  }

  learn(v: View, p: Position, now: number): void {
    this.shard = p.shard;
    this.view = v;
    this.stamp = p;
    this.at = now;
    this.visible = v.status !== "withdrawn";
  }

  /** Says that the target was left out of an answer after the position. */
  outdates(p: Position): boolean {
    const at = this.absent.get(p.shard);
    return at !== undefined && atMost(p, at);
  }
}

/**
 * Turns answers and messages, in whatever order and however often they come, into
 * what the viewer sees. It does no I/O and reads no clock; times are milliseconds of
 * any clock that does not go back. It is the twin of the reducer in Go: the vectors
 * in `fanout/viewer/testdata/reducer` hold for both.
 */
export class Reducer {
  readonly #shards = new Map<number, Shard>();
  /** What is asked for. */
  readonly #targets = new Map<string, Entry>();
  /** Why nothing is known at all. */
  #offline = "";
  readonly #touched = new Set<string>();
  #takeovers = 0;

  /** How many new owners of shards messages have told of. */
  get takeovers(): number {
    return this.#takeovers;
  }

  /** Adds targets and returns those that are new. */
  want(targets: Iterable<string>): string[] {
    const added: string[] = [];
    for (const t of targets) {
      if (this.#targets.has(t)) continue;
      this.#targets.set(t, new Entry());
      added.push(t);
    }
    return added;
  }

  /** Forgets targets. */
  unwant(targets: Iterable<string>): void {
    for (const t of targets) {
      this.#targets.delete(t);
      this.#touched.delete(t);
    }
  }

  wants(target: string): boolean {
    return this.#targets.has(target);
  }

  /** How many targets are asked for. */
  get wanted(): number {
    return this.#targets.size;
  }

  /** Applies a message of a stream. */
  message(m: Message, now: number): void {
    const s = this.#shard(m.shard);
    if (m.generation < s.generation) return; // from an owner that has lost the shard
    if (m.generation > s.generation) this.#takeovers++;
    if (s.message(m)) this.#touchShard(m.shard);
    for (const v of m.changes) {
      const e = this.#targets.get(v.target);
      if (e && v.version > e.version && !e.outdates(m)) this.#learn(e, v, m, now);
    }
  }

  /**
   * Applies the answer to a subscribe or get. It is false if the answer came from an
   * owner that has lost its shard: ask again.
   */
  reply(reply: Reply, answer: Answer, now: number): boolean {
    const positions = new Map<number, Position>();
    const present = new Set<string>();
    let fresh = true;
    for (const snapshot of reply.shards) {
      const s = this.#shard(snapshot.shard);
      if (answer.once && !s.known) continue;
      if (snapshot.generation < s.generation) {
        fresh = false;
        continue;
      }
      positions.set(snapshot.shard, snapshot);
      const base = answer.base?.has(snapshot.shard) ?? false;
      if (s.answer(snapshot, base, now)) this.#touchShard(snapshot.shard);
      for (const v of snapshot.views) {
        present.add(v.target);
        const e = this.#targets.get(v.target);
        if (e && v.version >= e.version) this.#learn(e, v, snapshot, now);
      }
    }
    for (const t of answer.asked) {
      const e = this.#targets.get(t);
      if (e && !present.has(t)) this.#absent(t, e, positions);
    }
    return fresh;
  }

  /** Drops a target that an answer leaves out, unless it has been told of since. */
  #absent(target: string, e: Entry, positions: ReadonlyMap<number, Position>): void {
    e.absent = positions;
    const p = positions.get(e.shard);
    if (!p || !atMost(e.stamp, p)) return;
    e.visible = false;
    this.#touched.add(target);
  }

  /** Applies the answer to an unsubscribe of this client. */
  unsubscribed(reply: Reply, now: number): void {
    for (const snapshot of reply.shards) this.#shard(snapshot.shard).unsubscribed(snapshot, now);
  }

  /**
   * Applies the answer to a refresh. A shard that it does not mention knows nothing
   * of the viewer any more.
   */
  refreshed(reply: Reply, now: number): void {
    const mentioned = new Set<number>();
    for (const snapshot of reply.shards) {
      mentioned.add(snapshot.shard);
      const s = this.#shards.get(snapshot.shard);
      if (!s?.known || snapshot.generation < s.generation) continue;
      if (s.refreshed(snapshot, now)) this.#touchShard(snapshot.shard);
    }
    for (const [n, s] of this.#shards) {
      if (s.known && !mentioned.has(n)) s.lose(0);
    }
  }

  #learn(e: Entry, v: View, p: Position, now: number): void {
    e.learn(v, p, now);
    this.#touched.add(v.target);
  }

  /** Makes everything unknown for a reason; the empty reason ends that. */
  setOffline(reason: string): void {
    if (this.#offline === reason) return;
    this.#offline = reason;
    for (const t of this.#targets.keys()) this.#touched.add(t);
  }

  /** Why everything is unknown, empty if it is not. */
  get offline(): string {
    return this.#offline;
  }

  /**
   * What is shown of a target; undefined if nothing is known of it, which is not the
   * same as offline.
   */
  state(target: string): State | undefined {
    const e = this.#targets.get(target);
    if (!e?.visible || !e.view) return undefined;
    const feed = this.#shards.get(e.shard)?.feed;
    const reason = this.#offline || (feed?.state === "stalled" ? feed.reason : "");
    if (reason === "") return { ...e.view, received: e.at };
    return { target, status: "unknown", version: e.view.version, reason, received: e.at };
  }

  /** What is shown of every target of which something is known. */
  *states(): Generator<[target: string, state: State]> {
    for (const t of this.#targets.keys()) {
      const state = this.state(t);
      if (state) yield [t, state];
    }
  }

  /** The targets that are shown differently since the last call, in order. */
  changes(now: number): Change[] {
    const changes: Change[] = [];
    for (const target of [...this.#touched].sort()) {
      const e = this.#targets.get(target);
      if (!e) continue;
      const known = this.state(target);
      if (known ? e.shown && looksSame(known, e.shown) : !isShown(e.shown)) continue;
      e.shown = known ?? { target, status: "withdrawn", version: e.version, received: now };
      changes.push({ ...e.shown, at: now });
    }
    this.#touched.clear();
    return changes;
  }

  #shard(n: number): Shard {
    let s = this.#shards.get(n);
    if (!s) this.#shards.set(n, (s = new Shard()));
    return s;
  }

  #touchShard(n: number): void {
    for (const [t, e] of this.#targets) {
      if (e.shard === n) this.#touched.add(t);
    }
  }

  /**
   * The targets that are, or may be, in one of the shards, those of a shard together;
   * undefined means all.
   */
  members(shards?: ReadonlySet<number>): string[] {
    return [...this.#targets]
      .filter(([, e]) => !shards || e.shard < 0 || shards.has(e.shard))
      .sort(([a, x], [b, y]) => x.shard - y.shard || (a < b ? -1 : 1))
      .map(([t]) => t);
  }

  /** The shards of which messages may be missing. */
  lost(now: number): Set<number> {
    const lost = new Set<number>();
    for (const [n, s] of this.#shards) {
      s.overdue(now);
      if (s.lost) lost.add(n);
    }
    return lost;
  }

  /** When {@link lost} may find more, undefined for never. */
  nextClaim(): number | undefined {
    const due = [...this.#shards.values()].map((s) => s.claimDue).filter((at) => at !== undefined);
    return due.length > 0 ? Math.min(...due) : undefined;
  }

  /** Says that anything may have been missed. */
  loseAll(): void {
    for (const s of this.#shards.values()) {
      if (s.known) s.lose(0);
    }
  }

  /** Says that a resync of these shards has failed half-way. */
  lose(shards: Iterable<number>): void {
    for (const n of shards) {
      const s = this.#shard(n);
      if (s.known) s.lose(0);
    }
  }

  /** Drops shards in which, after a whole resync, nothing of this client is. */
  forget(shards: Iterable<number>): void {
    for (const n of shards) this.#shard(n).forget();
  }

  /**
   * Notes that this client is about to unsubscribe from targets, so that it knows its
   * own doing from that of other clients. Call what it returns after the answer.
   */
  leave(targets: Iterable<string>): () => void {
    const leaving = new Map<Shard, number>();
    for (const t of targets) {
      const e = this.#targets.get(t);
      if (!e || e.shard < 0) continue;
      const s = this.#shard(e.shard);
      leaving.set(s, (leaving.get(s) ?? 0) + 1);
    }
    for (const [s, n] of leaving) s.leaving += n;
    return () => {
      for (const [s, n] of leaving) s.leaving -= n;
    };
  }
}
