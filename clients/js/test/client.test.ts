import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { NatsConnection } from "@nats-io/nats-core";
import { Client, decodeMessage, type State } from "../src/index.js";
import { Fabric } from "./fabric.js";
import { dial, eventually, refusal, shown, sleep, watch } from "./watcher.js";

let fabric: Fabric;
before(async () => (fabric = await Fabric.start()));
after(() => fabric.stop());

test("subscribe, changes, get, unsubscribe", async (t) => {
  await fabric.do("connect", "ann", "phone");
  const w = await watch(fabric);
  t.after(() => w.close());
  await w.client.subscribe(["ann", "bob", "nobody"]);
  await w.expect({ ann: "online", bob: "", nobody: "" });
  assert.deepEqual([...w.client.states.keys()], ["ann"]);
  checkMap(w.client.states, "ann");

  await fabric.do("connect", "bob", "laptop");
  await w.expect({ bob: "online" });
  const before = w.client.states.get("ann");
  await fabric.do("state", "ann", "phone", "background");
  await eventually(() => assert.equal(w.client.states.get("ann")?.state, "background"));
  assert.ok(w.client.states.get("ann")!.version > before!.version);
  await fabric.do("close", "ann", "phone");
  await w.expect({ ann: "offline" });
  assert.match(w.client.states.get("ann")?.last_seen_minute ?? "", /^\d{4}-\d\d-\d\dT\d\d:\d\d:00Z$/);
  assert.deepEqual(w.shownAs("ann"), ["online", "online", "offline"]);

  await w.client.subscribe(["ann", "carl"]); // a second one keeps the first
  for (let twice = 0; twice < 2; twice++) await w.client.unsubscribe(["bob"]);
  const seen = w.changes.length;
  await fabric.do("close", "bob", "laptop");
  await sleep(2_500);
  await w.expect({ ann: "offline", bob: "" });
  assert.equal(w.changes.length, seen, "told after the unsubscribe");

  const once = await w.client.get(["ann", "bob", "nobody"]);
  assert.deepEqual([...once].map(([id, state]) => [id, shown(state)]), [["ann", "offline"], ["bob", "offline"]]);
  await w.expect({ bob: "" }); // to get is not to watch
});

/** Holds a Map's ways to its one element against each other. */
function checkMap(states: ReadonlyMap<string, State>, target: string): void {
  const state = states.get(target);
  assert.ok(states.has(target) && !states.has("nobody"));
  assert.equal(states.size, 1);
  assert.deepEqual([...states], [[target, state]]);
  assert.deepEqual([...states.values()], [state]);
  states.forEach((s, t, all) => assert.deepEqual([s, t, all], [state, target, states]));
}

test("an iterator has the newest of each target, and ends with the client", async (t) => {
  await fabric.do("connect", "iva", "phone");
  const w = await watch(fabric, { viewer: "vic" });
  t.after(() => w.close());
  const slow = w.client.changes();
  await w.client.subscribe(["iva"]);
  await fabric.do("state", "iva", "phone", "idle");
  await eventually(() => assert.equal(w.client.states.get("iva")?.state, "idle"));
  const first = await slow.next();
  assert.equal(first.value?.state, "idle", "an older change waited");
  await fabric.do("close", "iva", "phone");
  const second = await slow.next();
  assert.equal(second.value?.status, "offline");
  const last = slow.next();
  await w.client.close();
  assert.deepEqual(await last, { value: undefined, done: true });
});

test("any id, of viewers and targets", async (t) => {
  const odd = ["* > .", "Zoë 🦉", "a.b", "=x", "ü".repeat(64)];
  for (const viewer of ["vera v. > *", "🦉"]) {
    const w = await watch(fabric, { viewer });
    t.after(() => w.close());
    await w.client.subscribe(odd);
    for (const id of odd) await fabric.do("connect", id, viewer);
    await w.expect(Object.fromEntries(odd.map((id) => [id, "online"])));
    for (const id of odd) await fabric.do("close", id, viewer);
    await w.expect(Object.fromEntries(odd.map((id) => [id, "offline"])));
  }
});

test("refusals say why", async (t) => {
  const w = await watch(fabric, { viewer: "ruth" });
  t.after(() => w.close());
  const many = Array.from({ length: 10_001 }, (_, i) => `u${i}`);
  for (const ask of [(ids: string[]) => w.client.subscribe(ids), (ids: string[]) => w.client.get(ids)]) {
    await assert.rejects(ask([]), refusal("no_targets"));
    await assert.rejects(ask(many), refusal("too_many_targets"));
    await assert.rejects(ask(["bob", ""]), refusal("invalid_id"));
    await assert.rejects(ask(["x".repeat(129)]), refusal("invalid_id"));
    await assert.rejects(ask(["half \ud83e"]), refusal("invalid_id"));
  }
  await w.client.subscribe(many.slice(0, 10_000));
  await assert.rejects(w.client.subscribe(["one more"]), refusal("too_many_targets"));
  await w.client.unsubscribe(many.slice(0, 10_000));
  await fabric.do("connect", "one more", "phone");
  await w.client.subscribe(["one more"]);
  await w.expect({ "one more": "online" });
});

/** Loses messages of the stream while `lose` says so. */
function lossy(nc: NatsConnection, lose: (data: Uint8Array) => boolean): NatsConnection {
  const subscribe: NatsConnection["subscribe"] = (subject, opts = {}) =>
    nc.subscribe(subject, {
      ...opts,
      callback: (err, m) => (err || !lose(m.data) ? opts.callback?.(err, m) : undefined),
    });
  return new Proxy(nc, {
    get: (target, name) => {
      const value: unknown = name === "subscribe" ? subscribe : Reflect.get(target, name);
      return typeof value === "function" ? (value.bind(target) as unknown) : value;
    },
  });
}

test("lost messages are noticed within seconds", async (t) => {
  let losing = false;
  let lost = 0;
  const w = await watch(fabric, { viewer: "gwen" }, (nc) =>
    lossy(nc, (data) => losing && decodeMessage(data).changes.length > 0 && ++lost > 0),
  );
  t.after(() => w.close());
  await fabric.do("connect", "gil", "phone");
  await w.client.subscribe(["gil"]);
  await w.expect({ gil: "online" });
  losing = true;
  await fabric.do("close", "gil", "phone");
  await eventually(() => assert.ok(lost > 0));
  losing = false;
  await w.expect({ gil: "online" });
  await w.expect({ gil: "offline" }); // the seq is repeated two seconds later
  assert.deepEqual(w.shownAs("gil"), ["online", "offline"]);
});

test("after a reconnect there is one snapshot, and what was missed is in it", async (t) => {
  let losing = false;
  let nc: NatsConnection | undefined;
  const w = await watch(fabric, { viewer: "rick" }, (connection) => lossy((nc = connection), () => losing));
  const spy = await dial(fabric, "operator", "spy");
  t.after(() => Promise.all([w.close(), spy.close()]));
  const targets = ["ria", "rob", "ron", "ray"]; // in several shards
  for (const id of targets) await fabric.do("connect", id, "phone");
  await w.client.subscribe(targets);
  await w.expect(Object.fromEntries(targets.map((id) => [id, "online"])));
  let snapshots = 0;
  spy.subscribe("presence.req.subscribe.rick", { callback: () => void snapshots++ });
  await spy.flush();
  losing = true;
  await fabric.do("close", "ria", "phone");
  await sleep(5_000); // nor does the repeated seq arrive
  losing = false;
  await nc!.reconnect();
  await w.expect({ ria: "offline", rob: "online" }, 3_000);
  await sleep(1_500);
  assert.equal(snapshots, 1);
  assert.deepEqual(w.shownAs("ria"), ["online", "offline"]);
  assert.deepEqual(w.shownAs("rob"), ["online"]);
});

test("two clients of one viewer", async (t) => {
  for (const id of ["ta", "tb", "tc"]) await fabric.do("connect", id, "phone");
  const one = await watch(fabric, { viewer: "twin" });
  const two = await watch(fabric, { viewer: "twin" });
  t.after(() => Promise.all([one.close(), two.close()]));
  await one.client.subscribe(["ta", "tb"]);
  await two.client.subscribe(["tb", "tc"]);
  await two.client.unsubscribe(["tb"]); // the first one still wants it
  await sleep(2_500);
  for (const id of ["ta", "tb", "tc"]) await fabric.do("close", id, "phone");
  await one.expect({ ta: "offline", tb: "offline", tc: "" });
  await two.expect({ ta: "", tb: "", tc: "offline" });
});

test("what a target says of itself, and that it blocks the viewer", async (t) => {
  await fabric.do("connect", "pia", "phone");
  const w = await watch(fabric, { viewer: "phil" });
  t.after(() => w.close());
  await w.client.subscribe(["pia"]);
  await fabric.do("status", "pia", "away", "back at five");
  await eventually(() => {
    const { availability, text } = w.client.states.get("pia")!;
    assert.deepEqual({ availability, text }, { availability: "away", text: "back at five" });
  });
  await fabric.do("block", "pia", "phil");
  await w.expect({ pia: "" });
  assert.equal(w.shownAs("pia").at(-1), "withdrawn");
  assert.equal((await w.client.get(["pia"])).size, 0);
  await fabric.do("unblock", "pia", "phil");
  await w.expect({ pia: "online" });
});

test("a closed client says so", async () => {
  const w = await watch(fabric);
  const iterator = w.client.changes();
  await w.client.close();
  assert.equal(await w.client.closed, undefined);
  await assert.rejects(w.client.subscribe(["ann"]), refusal("closed"));
  await assert.rejects(w.client.get(["ann"]), refusal("closed"));
  assert.equal((await iterator.next()).done, true);
  assert.equal((await w.client.changes().next()).done, true);
  await w.close();
});

test("a connection that is closed for good ends the client with the reason", async () => {
  let nc: NatsConnection | undefined;
  const w = await watch(fabric, {}, (connection) => (nc = connection));
  await nc!.close();
  const reason = await w.client.closed;
  assert.equal(reason?.code, "closed");
});

test("without a WebSocket connecting fails at once", async (t) => {
  const { WebSocket } = globalThis;
  t.after(() => Object.assign(globalThis, { WebSocket }));
  Reflect.deleteProperty(globalThis, "WebSocket");
  await assert.rejects(Client.connect({ viewer: "ann", servers: fabric.addresses.websocket }), /no WebSocket here/);
});
