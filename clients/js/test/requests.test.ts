import assert from "node:assert/strict";
import { after, before, test, type TestContext } from "node:test";
import { headers, type Msg, type NatsConnection, type Subscription } from "@nats-io/nats-core";
import { Fabric } from "./fabric.js";
import { dial, eventually, refusal, shown, sleep, watchOn, type Watcher } from "./watcher.js";

let fabric: Fabric;
before(async () => (fabric = await Fabric.start()));
after(() => fabric.stop());

/** A connection that may do everything, under prefixes of no fabric as well. */
function anyone(): Promise<NatsConnection> {
  return dial(fabric, "operator", "anyone");
}

interface Asked {
  readonly op: string;
  readonly targets: string[];
}

/** What a scripted fanout answers: a code, or views as targets with their status. */
type Script = (asked: Asked, nth: number) => string | Record<string, string>;

/** A fanout that says what a test wants it to say. Each has a fabric's prefix for itself. */
async function scripted(t: TestContext, prefix: string, script: Script): Promise<{ w: Watcher; asked: Asked[] }> {
  const nc = await dial(fabric, "operator", "fanout");
  const asked: Asked[] = [];
  nc.subscribe(`${prefix}.req.*.*`, { callback: (_, m) => respond(m, asked, script) });
  await nc.flush();
  const w = await watchOn(await anyone(), { viewer: "vera", prefix, spread: 0 });
  t.after(() => Promise.all([w.close(), nc.close()]));
  return { w, asked };
}

function respond(m: Msg, asked: Asked[], script: Script): void {
  const op = m.subject.split(".")[2]!;
  const { targets = [] } = m.data.length > 0 ? m.json<{ targets?: string[] }>() : {};
  const request = { op, targets };
  const answer = script(request, asked.push(request));
  if (typeof answer === "string") {
    const h = headers();
    h.set("Nats-Service-Error-Code", answer);
    h.set("Nats-Service-Error", "because");
    m.respond("", { headers: h });
    return;
  }
  const views = Object.entries(answer).map(([target, status]) => ({ target, status, version: 1 }));
  m.respond(JSON.stringify({ shards: [{ shard: 0, generation: 1, seq: 0, feed: "live", targets: views.length, views }] }));
}

test("many targets go in small requests", async (t) => {
  const { w, asked } = await scripted(t, "many", () => ({}));
  await w.client.subscribe(Array.from({ length: 2_500 }, (_, i) => `u${i}`));
  assert.deepEqual(asked.map((a) => a.targets.length), [1_000, 1_000, 500]);
});

test("an answer that is too large is asked for in parts", async (t) => {
  const { w, asked } = await scripted(t, "large", ({ targets }) =>
    targets.length > 300 ? "too_large" : Object.fromEntries(targets.map((id) => [id, "online"])),
  );
  const targets = Array.from({ length: 1_000 }, (_, i) => `u${i}`);
  await w.client.subscribe(targets);
  assert.equal(w.client.states.size, 1_000);
  assert.equal((await w.client.get(targets)).size, 1_000);
  assert.deepEqual(asked.slice(0, 4).map((a) => a.targets.length), [1_000, 500, 250, 250]);
});

for (const code of ["unavailable", "internal", "rate_limited"]) {
  test(`${code} is tried again`, async (t) => {
    const { w, asked } = await scripted(t, code, (_, nth) => (nth < 3 ? code : { ann: "online" }));
    await w.client.subscribe(["ann"]);
    assert.equal(shown(w.client.states.get("ann")), "online");
    assert.equal(asked.length, 3);
  });
}

test("a refusal is final, and takes all of the call back", async (t) => {
  const { w, asked } = await scripted(t, "refusing", ({ op, targets }) =>
    op === "subscribe" && targets.includes("u1500") ? "too_many_targets" : { u1: "online" },
  );
  await assert.rejects(w.client.subscribe(Array.from({ length: 2_000 }, (_, i) => `u${i}`)), refusal("too_many_targets"));
  assert.equal(w.client.states.size, 0);
  assert.deepEqual(asked.map((a) => a.op), ["subscribe", "subscribe", "unsubscribe", "unsubscribe"]);
  assert.deepEqual(w.shownAs("u1"), ["online"]);
});

test("without a fanout, an answer comes when there is one", async (t) => {
  const w = await watchOn(await anyone(), { viewer: "vera", prefix: "later" });
  const nc = await dial(fabric, "operator", "fanout");
  t.after(() => Promise.all([w.close(), nc.close()]));
  const asked = w.client.subscribe(["ann"]);
  await sleep(300);
  nc.subscribe("later.req.*.*", { callback: (_, m) => respond(m, [], () => ({ ann: "online" })) });
  await asked;
  assert.equal(shown(w.client.states.get("ann")), "online");
});

test("a malformed message is passed over", async (t) => {
  const warnings: unknown[] = [];
  const logger = { debug: () => {}, warn: (...args: unknown[]) => warnings.push(args) };
  const w = await watchOn(await anyone(), { viewer: "vera", prefix: "bad", logger });
  const nc: NatsConnection = await dial(fabric, "operator", "fanout");
  t.after(() => Promise.all([w.close(), nc.close()]));
  nc.subscribe("bad.req.*.*", { callback: (_, m) => respond(m, [], () => ({ ann: "online" })) });
  await w.client.subscribe(["ann"]);
  nc.publish("bad.view.vera.0", "{");
  const changes = [{ target: "ann", status: "offline", version: 2 }];
  nc.publish("bad.view.vera.0", JSON.stringify({ shard: 0, generation: 1, seq: 1, feed: "live", targets: 1, changes }));
  await eventually(() => assert.equal(shown(w.client.states.get("ann")), "offline"));
  assert.equal(warnings.length, 1);
});

test("whoever is another viewer to the server is told so", async (t) => {
  const nc = await dial(fabric, "viewer", "mallory");
  const w = await watchOn(nc, { viewer: "vera" });
  t.after(() => w.close());
  await assert.rejects(w.client.subscribe(["ann"]), refusal("forbidden"));
  assert.equal((await w.client.closed)?.code, "forbidden"); // it would hear of nothing
});

test("what the server forbids is not asked again", async (t) => {
  const nc = await dial(fabric, "fanout", "no viewer");
  nc.subscribe = () => ({ unsubscribe: () => {} }) as Subscription; // it may not hear of views either
  const w = await watchOn(nc, { viewer: "vera" });
  t.after(() => w.close());
  await assert.rejects(w.client.get(["ann"]), refusal("forbidden"));
});
