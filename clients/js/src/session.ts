import type { NatsConnection } from "@nats-io/nats-core";
import { Changes } from "./changes.js";
import type { Message, Op, Reply } from "./contract.js";
import { decodeMessage } from "./decode.js";
import { DisconnectedError, RollcallError, isNatsError, refused } from "./errors.js";
import { Link } from "./link.js";
import { Reducer } from "./reducer.js";
import { Requests, forbidden } from "./requests.js";
import type { Settings } from "./settings.js";
import { halving } from "./targets.js";
import { Alarm, backoff, now, pause } from "./time.js";
import { token } from "./token.js";

/** A round of asking again for everything in some shards. */
export interface Resync {
  /** Undefined means all. */
  readonly shards?: ReadonlySet<number>;
  /** The shards that there is an answer from. */
  readonly answered: Set<number>;
}

/** What the parts of a client share: what is known, who asks, and who hears of it. */
export class Session {
  readonly settings: Settings;
  readonly reducer = new Reducer();
  readonly changes = new Changes();
  readonly link: Link;
  readonly requests: Requests;
  /** Rings when there may be something to tend. */
  readonly alarm = new Alarm();
  /** A subscribe gave up before it had all its answers. */
  abandoned = false;
  readonly #ended = new AbortController();

  constructor(nc: NatsConnection, settings: Settings) {
    this.settings = settings;
    const viewer = token(settings.viewer);
    this.link = new Link(nc, () => this.alarm.ring());
    const subject = (op: Op) => `${settings.prefix}.req.${op}.${viewer}`;
    this.requests = new Requests(nc, this.link, subject, settings.timeout);
    // The server handles the subscription before any request that follows on this
    // connection, so no event can fall between the two.
    const events = nc.subscribe(`${settings.prefix}.view.${viewer}.*`, {
      callback: (err, m) => (err ? this.#deaf(err) : this.#receive(m.data)),
    });
    this.ended.addEventListener("abort", () => events.unsubscribe(), { once: true });
  }

  /** Aborted when the client has ended. */
  get ended(): AbortSignal {
    return this.#ended.signal;
  }

  end(reason: RollcallError): void {
    if (this.ended.aborted) return;
    this.#ended.abort(reason);
    this.changes.end();
    this.alarm.ring();
  }

  /** Without events there is nothing to be right about. */
  #deaf(err: Error): void {
    this.end(isNatsError(err, "PermissionViolationError") ? forbidden(err) : new RollcallError("closed", err.message));
  }

  #receive(data: Uint8Array): void {
    let message: Message;
    try {
      message = decodeMessage(data);
    } catch (err) {
      this.settings.logger.warn("rollcall: message ignored:", err);
      return;
    }
    this.update((r) => r.message(message, now()));
  }

  /** Changes what is known and passes on what shows. */
  update(change: (reducer: Reducer) => void): void {
    change(this.reducer);
    this.changes.push(this.reducer.changes(now()));
    this.alarm.ring();
  }

  /** Aborted by the signal, and when the client has ended; throws if that is so already. */
  until(signal: AbortSignal | undefined): AbortSignal {
    const either = signal ? AbortSignal.any([signal, this.ended]) : this.ended;
    either.throwIfAborted();
    return either;
  }

  /** Tries until it works, is refused, or the signal ends it. */
  async insist<T>(signal: AbortSignal, attempt: () => Promise<T>): Promise<T> {
    for (let failed = 0; ; failed++) {
      try {
        return await attempt();
      } catch (err) {
        signal.throwIfAborted();
        if (refused(err)) throw err;
        if (err instanceof DisconnectedError) await this.link.up(signal);
        await pause(backoff(failed), signal);
      }
    }
  }

  /**
   * Asks for those of the targets that are still wanted; without a resync the answer is
   * no base.
   */
  subscribe(targets: readonly string[], signal: AbortSignal, round?: Resync): Promise<void> {
    return halving(targets, async (part) => {
      let asked: readonly string[] = [];
      const stillWanted = () => (asked = part.filter((t) => this.reducer.wants(t)));
      const reply = await this.requests.ask("subscribe", stillWanted, signal);
      if (asked.length === 0) return;
      let fresh = true;
      this.update((r) => {
        fresh = r.reply(reply, { asked, base: firstAnswers(reply, round) }, now());
      });
      if (!fresh) throw new Error("answered by a former owner");
    });
  }
}

/** The shards that an answer is the first from. */
function firstAnswers(reply: Reply, round: Resync | undefined): Set<number> {
  const first = new Set<number>();
  if (!round) return first;
  for (const { shard } of reply.shards) {
    if (round.answered.has(shard) || (round.shards && !round.shards.has(shard))) continue;
    round.answered.add(shard);
    first.add(shard);
  }
  return first;
}
