import assert from "node:assert/strict";
import { connect } from "@nats-io/transport-node";
import { jwtAuthenticator, type NatsConnection } from "@nats-io/nats-core";
import { Client, type Change, type Options, type State } from "../src/index.js";
import type { Fabric } from "./fabric.js";

/** A client over TCP that remembers every change. */
export interface Watcher {
  readonly client: Client;
  readonly changes: Change[];
  /** What a target was shown as, oldest first. */
  shownAs(target: string): string[];
  /** Waits until the targets are shown so. */
  expect(want: Record<string, string>, ms?: number): Promise<void>;
  close(): Promise<void>;
}

export async function dial(fabric: Fabric, role: string, id: string): Promise<NatsConnection> {
  const { jwt, seed, inbox_prefix } = (await fabric.token(role, id)).parts;
  return connect({
    servers: fabric.addresses.nats,
    authenticator: jwtAuthenticator(jwt, new TextEncoder().encode(seed)),
    inboxPrefix: inbox_prefix,
    maxReconnectAttempts: -1,
    reconnectTimeWait: 100,
  });
}

export async function watch(
  fabric: Fabric,
  options: Partial<Options> = {},
  wrap = (nc: NatsConnection) => nc,
): Promise<Watcher> {
  const viewer = options.viewer ?? "vera";
  return watchOn(await dial(fabric, "viewer", viewer), { viewer, ...options }, wrap);
}

/** Watches on a connection that need not be the viewer's. */
export async function watchOn(
  nc: NatsConnection,
  options: Options,
  wrap = (nc: NatsConnection) => nc,
): Promise<Watcher> {
  const client = await Client.connect({ ...options, connection: wrap(nc) });
  const changes: Change[] = [];
  client.on((change) => changes.push(change));
  return {
    client,
    changes,
    shownAs: (target) => changes.filter((c) => c.target === target).map(shown),
    expect: (want, ms) =>
      eventually(() => {
        const got = Object.fromEntries(Object.keys(want).map((t) => [t, shown(client.states.get(t))]));
        assert.deepEqual(got, want);
      }, ms),
    close: async () => {
      await client.close();
      await nc.close();
    },
  };
}

/** A state as "status" or "unknown/reason"; "" is nothing. */
export function shown(state: State | undefined): string {
  if (!state) return "";
  return state.reason ? `${state.status}/${state.reason}` : state.status;
}

/** Waits until the check holds; fails as it does if it does not in time. */
export async function eventually(check: () => void, ms = 5_000): Promise<void> {
  for (const deadline = Date.now() + ms; ; await sleep(20)) {
    try {
      return check();
    } catch (err) {
      if (Date.now() > deadline) throw err;
    }
  }
}

export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Is a refusal with the code. */
export function refusal(code: string): (err: unknown) => boolean {
  return (err) => {
    assert.equal((err as { code?: string }).code, code, String(err));
    return true;
  };
}
