import type { NatsConnection } from "@nats-io/nats-core";
import type { Listener } from "./changes.js";
import { connect, type Servers } from "./connect.js";
import { MAX_TARGETS } from "./contract.js";
import { RollcallError, refused } from "./errors.js";
import { OwnPolicy } from "./ownpolicy.js";
import { Reducer } from "./reducer.js";
import { Session } from "./session.js";
import { settle, type CallOptions, type Options, type Settings } from "./settings.js";
import type { Change, State } from "./state.js";
import { States } from "./states.js";
import { checkTargets, chunks, halving, tooMany } from "./targets.js";
import { Tender } from "./tender.js";
import { now } from "./time.js";

/** A connection of the application's, which a client uses and does not close. */
export interface Ready {
  /** Made with the `inboxPrefix` of the viewer, where permissions ask for it. */
  readonly connection: NatsConnection;
}

export type ClientOptions = Options & (Servers | Ready);

/**
 * Watches targets for one viewer and always shows either what the fabric knows or that
 * it is not known. It never gives up by itself: it repairs what was lost and comes back
 * after every outage, until it is closed.
 */
export class Client {
  /**
   * What is shown of every watched target of which something is known. One that is not
   * answered yet or that the viewer may not see is not in it.
   */
  readonly states: ReadonlyMap<string, State>;
  /**
   * Resolves when the client has ended: to undefined after {@link close}, otherwise to
   * the reason.
   */
  readonly closed: Promise<RollcallError | undefined>;
  /** What the viewer says of itself, and who may know it. */
  readonly policy: OwnPolicy;
  readonly #session: Session;
  readonly #connection: NatsConnection;
  readonly #own: boolean;
  #closing = false;

  private constructor(connection: NatsConnection, own: boolean, settings: Settings) {
    this.#connection = connection;
    this.#own = own;
    this.#session = new Session(connection, settings);
    this.states = new States(this.#session.reducer);
    this.policy = new OwnPolicy(connection, this.#session);
    this.closed = this.#live();
  }

  /** Connects and begins; fails if no server can be reached. */
  static async connect(options: ClientOptions): Promise<Client> {
    const settings = settle(options);
    if ("connection" in options) return new Client(options.connection, false, settings);
    return new Client(await connect(settings.viewer, options), true, settings);
  }

  async #live(): Promise<RollcallError | undefined> {
    const { ended, link } = this.#session;
    void this.#connection.closed().then((err) => {
      this.#session.end(new RollcallError("closed", err?.message ?? "the connection was closed", { cause: err }));
    });
    void link.follow(ended);
    await new Tender(this.#session).run();
    if (this.#own) await this.#connection.close();
    return this.#closing ? undefined : (ended.reason as RollcallError);
  }

  /**
   * Adds targets and resolves when the first answer for each of them is in. It tries
   * again while the fanout is away.
   *
   * If the signal ends it before, the targets stay watched and are answered when the
   * fanout is back. If they are refused, it rejects with a {@link RollcallError}, and
   * those that were not watched before are not watched now.
   */
  async subscribe(targets: readonly string[], options: CallOptions = {}): Promise<void> {
    checkTargets(targets);
    const session = this.#session;
    const signal = session.until(options.signal);
    const added = session.reducer.want(targets);
    const total = session.reducer.wanted;
    if (total > MAX_TARGETS) {
      session.reducer.unwant(added);
      throw tooMany(`${total} targets in all`);
    }
    let accepted = 0;
    try {
      for (const part of chunks(targets)) {
        await session.insist(signal, () => session.subscribe(part, signal));
        accepted++;
      }
    } catch (err) {
      if (!refused(err)) session.update(() => (session.abandoned = true));
      else if (accepted > 0 && added.length > 0) await this.unsubscribe(added, options).catch(() => {});
      else this.#forget(added);
      throw err;
    }
  }

  #forget(targets: readonly string[]): void {
    this.#session.update((r) => r.unwant(targets));
    this.#session.changes.drop(targets);
  }

  /**
   * Removes targets; nothing is delivered for them afterwards. It is idempotent. If it
   * fails, the fanout may go on telling of them, which does no harm, until the viewer's
   * interest ends.
   */
  async unsubscribe(targets: readonly string[], options: CallOptions = {}): Promise<void> {
    if (targets.length === 0) return; // to the fanout, no targets would mean all
    checkTargets(targets);
    const session = this.#session;
    const signal = session.until(options.signal);
    const left = session.reducer.leave(targets);
    this.#forget(targets);
    try {
      for (const part of chunks(targets)) {
        await session.insist(signal, async () => {
          const reply = await session.requests.ask("unsubscribe", () => part, signal);
          session.update((r) => r.unsubscribed(reply, now()));
        });
      }
    } finally {
      session.update(left);
    }
  }

  /**
   * Asks for the states of targets once. One that the viewer may not see is not in the
   * result. If the feed of its shard is stalled, the status is unknown.
   */
  async get(targets: readonly string[], options: CallOptions = {}): Promise<Map<string, State>> {
    checkTargets(targets);
    const session = this.#session;
    const signal = session.until(options.signal);
    const once = new Reducer();
    once.want(targets);
    for (const part of chunks(targets)) {
      await session.insist(signal, () =>
        halving(part, async (asked) => {
          const reply = await session.requests.ask("get", () => asked, signal);
          once.reply(reply, { asked }, now());
          session.update((r) => r.reply(reply, { asked, once: true }, now()));
        }),
      );
    }
    return new Map(once.states());
  }

  /**
   * Calls the listener with every change from now on, until the function that it returns
   * is called.
   */
  on(listener: Listener): () => void {
    return this.#session.changes.on(listener);
  }

  /**
   * Iterates over the changes from now on, until the client is closed. For a slow reader
   * a newer change of a target takes the place of the one that waits.
   */
  changes(): AsyncIterableIterator<Change> {
    return this.#session.changes.iterate();
  }

  /**
   * Ends the client and, if it has made it, its connection. The interest is left to
   * expire; unsubscribe before to end it at once.
   */
  async close(): Promise<void> {
    this.#closing ||= !this.#session.ended.aborted;
    this.#session.end(new RollcallError("closed", "the client was closed"));
    await this.closed;
  }
}
