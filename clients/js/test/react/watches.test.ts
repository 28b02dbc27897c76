import assert from "node:assert/strict";
import { test } from "node:test";
import { PresenceStore } from "../../src/react/presence.js";
import type { Watching } from "../../src/react/watches.js";
import { RollcallError, type Change, type Listener, type State } from "../../src/index.js";

/** A client that only keeps account. */
class Fake {
  readonly states = new Map<string, State>();
  readonly asked: string[] = [];
  refusal: Error | undefined;
  #listener: Listener = () => {};

  on(listener: Listener): () => void {
    this.#listener = listener;
    return () => {};
  }

  async subscribe(targets: readonly string[]): Promise<void> {
    this.asked.push(`+${targets.join()}`);
    if (this.refusal) throw this.refusal;
  }

  async unsubscribe(targets: readonly string[]): Promise<void> {
    this.asked.push(`-${targets.join()}`);
  }

  show(target: string, status: State["status"]): void {
    const state: State = { target, status, version: 1, received: 0 };
    this.states.set(target, state);
    this.#listener({ ...state, at: 0 } satisfies Change);
  }
}

const settled = () => new Promise((resolve) => setImmediate(resolve));

test("a target is watched once for all who want it, and a while longer", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const client = new Fake();
  const one = new PresenceStore(client as Watching, ["a", "b"]);
  const two = new PresenceStore(client as Watching, ["b", "c"]);
  const release = [one.subscribe(() => {}), two.subscribe(() => {})];
  await settled();
  assert.deepEqual(client.asked, ["+a,b", "+c"]);
  release[0]?.();
  const again = one.subscribe(() => {}); // as React does twice in development
  t.mock.timers.tick(1_000);
  await settled();
  assert.equal(client.asked.length, 2);
  again();
  t.mock.timers.tick(1_000);
  await settled();
  assert.deepEqual(client.asked.slice(2), ["-a"]);
  release[1]?.();
  t.mock.timers.tick(1_000);
  await settled();
  assert.deepEqual(client.asked.slice(3), ["-b,c"]);
});

test("a snapshot is another one only when something of it is", async () => {
  const client = new Fake();
  const store = new PresenceStore(client as Watching, ["a"]);
  let told = 0;
  store.subscribe(() => told++);
  const first = store.snapshot();
  assert.equal(store.snapshot(), first);
  assert.equal(first.ready, false);
  await settled();
  assert.equal(store.snapshot().ready, true);
  client.show("z", "online");
  const second = store.snapshot();
  client.show("a", "online");
  assert.notEqual(store.snapshot(), second);
  assert.equal(store.snapshot().states.get("a")?.status, "online");
  assert.equal(told, 2);
});

test("a refusal is told, and forgotten with those who asked", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const client = new Fake();
  client.refusal = new RollcallError("too_many_targets", "10001 targets in all");
  const store = new PresenceStore(client as Watching, ["a"]);
  const release = store.subscribe(() => {});
  await settled();
  assert.equal(store.snapshot().error, client.refusal);
  client.refusal = undefined;
  release();
  t.mock.timers.tick(1_000);
  await settled();
  store.subscribe(() => {});
  await settled();
  assert.equal(store.snapshot().error, undefined);
  assert.equal(store.snapshot().ready, true);
});
