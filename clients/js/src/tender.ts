import { isNatsError, refused } from "./errors.js";
import type { Resync, Session } from "./session.js";
import { REASON_DISCONNECTED, REASON_FANOUT_SILENT } from "./state.js";
import { chunks } from "./targets.js";
import { backoff, jittered, now, upTo } from "./time.js";
import { Trouble } from "./trouble.js";

/**
 * Every so many refreshes everything is asked again. It repairs what no comparison
 * shows, such as another client of the viewer that removed a target of ours and added
 * one of its own.
 */
const EVERY_NTH = 10;

/** How soon, in ms, a refresh that failed is tried again, so that silence is noticed. */
const AGAIN = 5_000;

/**
 * Keeps a client right: it refreshes, resyncs what was lost, and says so when nothing
 * can be known.
 */
export class Tender {
  readonly #session: Session;
  #reconnects = 0;
  #refreshAt: number;
  #refreshes = 0;
  /** Undefined for never. */
  #resyncAt: number | undefined;
  /** The next resync is of everything. */
  #whole = false;
  /** Resyncs that failed in a row. */
  #attempt = 0;
  #takeovers = 0;
  readonly #trouble = new Trouble();

  constructor(session: Session) {
    this.#session = session;
    this.#refreshAt = now() + jittered(session.settings.refresh);
  }

  /** Works until the client has ended. */
  async run(): Promise<void> {
    while (!this.#session.ended.aborted) {
      await this.#work();
      await this.#session.alarm.sleep(this.#next(now()) - now());
    }
  }

  /** Does whatever is due. */
  async #work(): Promise<void> {
    const at = now();
    if (!this.#checkConnection(at)) return;
    const takenOver = this.#takenOver();
    if (this.#lost(at) && (takenOver || this.#resyncAt === undefined)) {
      this.#resyncAt = Math.min(at + upTo(this.#session.settings.spread), this.#resyncAt ?? Infinity);
    }
    if (this.#resyncAt !== undefined && at >= this.#resyncAt) await this.#resync();
    else if (at >= this.#refreshAt) await this.#refresh();
  }

  /** Follows the connection and says whether it is up. */
  #checkConnection(at: number): boolean {
    const { link, settings } = this.#session;
    if (link.reconnects > this.#reconnects) {
      // Messages may have been missed, and the fanout may be a new one.
      this.#reconnects = link.reconnects;
      this.#whole = true;
      this.#resyncAt = undefined;
      this.#attempt = 0;
    }
    if (link.downSince === undefined) return true;
    if (at - link.downSince >= settings.outage) this.#offline(REASON_DISCONNECTED);
    return false;
  }

  /**
   * Shows everything as unknown. Saying it once is enough: every change of the state
   * makes the tender look again.
   */
  #offline(reason: string): void {
    this.#whole = true; // nothing but a whole resync ends it
    if (this.#session.reducer.offline !== reason) this.#session.update((r) => r.setOffline(reason));
  }

  #lost(at: number): boolean {
    if (this.#session.abandoned) {
      this.#session.abandoned = false;
      this.#whole = true;
    }
    return this.#whole || this.#session.reducer.lost(at).size > 0;
  }

  /**
   * Says that a shard has got a new owner. Whom the one before has refused or not
   * answered need not wait any longer.
   */
  #takenOver(): boolean {
    const before = this.#takeovers;
    this.#takeovers = this.#session.reducer.takeovers;
    return this.#takeovers > before;
  }

  /** When there is something to do if nothing happens. */
  #next(at: number): number {
    const { link, settings, reducer } = this.#session;
    if (link.downSince !== undefined) {
      const outage = link.downSince + settings.outage;
      return outage > at ? outage : at + settings.refresh;
    }
    // A claim that has come true waits for the resync, if there is to be one.
    const soonest = this.#resyncAt ?? reducer.nextClaim();
    return Math.min(this.#refreshAt, soonest ?? Infinity);
  }

  /** Renews the interest and compares positions. */
  async #refresh(): Promise<void> {
    const { requests, settings, ended } = this.#session;
    try {
      const reply = await requests.refresh(ended);
      this.#trouble.worked();
      this.#refreshAt = now() + jittered(settings.refresh);
      this.#session.update((r) => r.refreshed(reply, now()));
      if (++this.#refreshes % EVERY_NTH === 0) this.#whole = true;
    } catch (err) {
      this.#note(err);
      this.#refreshAt = now() + Math.min(jittered(AGAIN), settings.refresh);
    }
  }

  /** Keeps account of failures. */
  #note(err: unknown): void {
    if (refused(err) && err.code !== "forbidden") {
      this.#trouble.worked(); // it was answered
      return;
    }
    const at = now();
    this.#trouble.failed(isNatsError(err, "TimeoutError"), at);
    if (this.#trouble.silent(this.#session.settings.outage, at)) this.#offline(REASON_FANOUT_SILENT);
  }

  /** Asks for all targets of the shards that have lost something. */
  async #resync(): Promise<void> {
    const { reducer, ended } = this.#session;
    const lost = reducer.lost(now());
    let round: Resync = { shards: lost, answered: new Set() };
    if (this.#whole) {
      reducer.loseAll();
      round = { answered: round.answered };
    }
    const asked = this.#whole ? reducer.lost(now()) : lost;
    try {
      for (const part of chunks(reducer.members(round.shards))) await this.#session.subscribe(part, ended, round);
      this.#succeeded(round, asked);
    } catch (err) {
      this.#failed(err, asked);
    }
  }

  #failed(err: unknown, asked: ReadonlySet<number>): void {
    this.#note(err);
    this.#session.update((r) => r.lose(asked));
    this.#resyncAt = now() + backoff(this.#attempt++);
    this.#session.settings.logger.debug("rollcall: resync failed:", err, "attempt", this.#attempt);
  }

  #succeeded(round: Resync, asked: ReadonlySet<number>): void {
    this.#trouble.worked();
    this.#whole = false;
    this.#resyncAt = undefined;
    this.#attempt = 0;
    this.#session.update((r) => {
      r.forget([...asked].filter((n) => !round.answered.has(n))); // nothing of ours is there any more
      r.setOffline("");
    });
  }
}
