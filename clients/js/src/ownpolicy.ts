import type { NatsConnection } from "@nats-io/nats-core";
import { decodePolicy } from "./decode.js";
import { RollcallError } from "./errors.js";
import {
  GRANULARITIES,
  MAX_POLICY_USERS,
  RELATIONS,
  type Granularity,
  type NewRelations,
  type NewStatus,
  type Policy,
  type PolicyOp,
} from "./policy.js";
import { request } from "./requests.js";
import type { Session } from "./session.js";
import type { CallOptions } from "./settings.js";
import { unlessAborted } from "./time.js";
import { checkId, token } from "./token.js";

const utf8 = new TextEncoder();

/**
 * Reads and changes the policy of the viewer itself. Every operation resolves to the
 * policy as it is afterwards; by then whoever asks is answered by it. Operations are
 * carried out one after the other, each tried again until it works, so that the last
 * call counts; one that its signal ends may have been carried out. Refusals are a
 * {@link RollcallError}. Groups are not here: they are the application's backend's.
 */
export class OwnPolicy {
  readonly #nc: NatsConnection;
  readonly #session: Session;
  #last: Promise<unknown> = Promise.resolve();

  constructor(nc: NatsConnection, session: Session) {
    this.#nc = nc;
    this.#session = session;
  }

  async get(options?: CallOptions): Promise<Policy> {
    return this.#do("get", {}, options);
  }

  /** Sets how much may be known by relation. */
  async set(relations: NewRelations, options?: CallOptions): Promise<Policy> {
    return this.#do("set", relating(relations), options);
  }

  /** Sets how much these viewers may know, whatever their relation. */
  async allow(users: readonly string[], granularity: Granularity, options?: CallOptions): Promise<Policy> {
    return this.#do("allow", { users: checked(users), granularity }, options);
  }

  /** Takes {@link allow} back. */
  async reset(users: readonly string[], options?: CallOptions): Promise<Policy> {
    return this.#do("reset", { users: checked(users) }, options);
  }

  /** Lets these viewers see nothing, as if the user did not exist. */
  async block(users: readonly string[], options?: CallOptions): Promise<Policy> {
    return this.#do("block", { users: checked(users) }, options);
  }

  async unblock(users: readonly string[], options?: CallOptions): Promise<Policy> {
    return this.#do("unblock", { users: checked(users) }, options);
  }

  /** Adds contacts. */
  async contact(users: readonly string[], options?: CallOptions): Promise<Policy> {
    return this.#do("contact", { users: checked(users) }, options);
  }

  /** Removes contacts. */
  async uncontact(users: readonly string[], options?: CallOptions): Promise<Policy> {
    return this.#do("uncontact", { users: checked(users) }, options);
  }

  /** Sets what the user says of itself. */
  async status(status: NewStatus, options?: CallOptions): Promise<Policy> {
    const { until, ...rest } = status;
    if (typeof rest.availability !== "string") throw wrong("status needs an availability");
    checkPriority(rest.priority);
    return this.#do("status", { status: { ...rest, ...(until !== undefined && { until: timeOf(until) }) } }, options);
  }

  /** Ends the status of a priority, without one all of them. */
  async clear(priority?: number, options?: CallOptions): Promise<Policy> {
    checkPriority(priority);
    return this.#do("clear", { priority }, options);
  }

  #do(op: PolicyOp, fields: object, { signal }: CallOptions = {}): Promise<Policy> {
    const session = this.#session;
    const until = session.until(signal);
    const body = JSON.stringify(fields);
    const mine = this.#last.then(() => session.insist(until, () => this.#attempt(op, body, until)));
    this.#last = mine.catch(() => {});
    return unlessAborted(mine, until);
  }

  /** Tries once; this ends with the signal, and when the connection is lost. */
  async #attempt(op: PolicyOp, body: string, signal: AbortSignal): Promise<Policy> {
    const { link, settings } = this.#session;
    const either = AbortSignal.any([signal, link.down]);
    either.throwIfAborted();
    const limit = this.#nc.info?.max_payload ?? Infinity;
    if (body.length > limit || utf8.encode(body).length > limit) {
      throw new RollcallError("too_many", `the request exceeds ${limit} bytes, name fewer users at once`);
    }
    const subject = `${settings.prefix}.policy.${op}.${token(settings.viewer)}`;
    return decodePolicy(await unlessAborted(request(this.#nc, subject, body, settings.timeout), either));
  }
}

// What follows refuses what the fanout would refuse, and what JSON would make of a
// mistake something else. Fields that are not known are the fanout's to refuse.

function checked(users: readonly string[]): readonly string[] {
  if (users.length === 0) throw wrong("name at least one user");
  if (users.length > MAX_POLICY_USERS) {
    throw new RollcallError("too_many", `${users.length} users, the limit is ${MAX_POLICY_USERS}`);
  }
  for (const [i, id] of users.entries()) checkId(id, `user ${i}`);
  return users;
}

function relating(relations: NewRelations): object {
  const body: Record<string, unknown> = {};
  const reset: string[] = [];
  for (const [name, to] of Object.entries(relations)) {
    if (!(RELATIONS as readonly string[]).includes(name)) throw wrong(`no relation ${JSON.stringify(name)}`);
    if (to === "default") reset.push(name);
    else if (GRANULARITIES.includes(to)) body[name] = to;
    else if (to !== undefined) throw wrong(`${name}: no granularity ${JSON.stringify(to)}`);
  }
  return { ...body, ...(reset.length > 0 && { default: reset }) };
}

function checkPriority(priority: number | undefined): void {
  if (priority !== undefined && !Number.isInteger(priority)) throw wrong(`priority ${String(priority)} is not an integer`);
}

/** Until then the contract has times. */
const END_OF_TIME = Date.UTC(10_000, 0) - 1;

function timeOf(until: Date | number): string {
  const ms = Number(until);
  if (!(ms >= 0 && ms <= END_OF_TIME)) throw wrong(`until ${String(until)} is not a time`);
  return new Date(ms).toISOString();
}

function wrong(what: string): RollcallError {
  return new RollcallError("invalid_request", what);
}
