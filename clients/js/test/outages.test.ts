import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { Fabric } from "./fabric.js";
import { sleep, watch } from "./watcher.js";

async function started(t: TestContext, ...flags: string[]): Promise<Fabric> {
  const fabric = await Fabric.start(...flags);
  t.after(() => fabric.stop());
  await fabric.do("connect", "ann", "phone");
  await fabric.do("connect", "bob", "phone");
  return fabric;
}

test("a long outage of the server shows unknown and then the state, nothing between", async (t) => {
  const fabric = await started(t);
  const w = await watch(fabric, { outage: 500 });
  t.after(() => w.close());
  await w.client.subscribe(["ann", "bob"]);
  await w.expect({ ann: "online", bob: "online" });
  await fabric.do("stop", "server");
  await w.expect({ ann: "unknown/disconnected", bob: "unknown/disconnected" });
  await fabric.do("close", "bob", "phone"); // the edge tells it when the server is back
  await fabric.do("start", "server");
  await w.expect({ ann: "online" }, 15_000);
  await w.expect({ bob: "offline" }, 15_000);
  assert.deepEqual(w.shownAs("ann"), ["online", "unknown/disconnected", "online"]);
  assert.equal(w.shownAs("bob").filter((s) => s === "offline").length, 1);
});

test("a short outage does not show", async (t) => {
  const fabric = await started(t);
  const w = await watch(fabric);
  t.after(() => w.close());
  await w.client.subscribe(["ann"]);
  await w.expect({ ann: "online" });
  await fabric.do("stop", "server");
  await fabric.do("start", "server");
  await fabric.do("close", "ann", "phone");
  await w.expect({ ann: "offline" }, 15_000);
  assert.deepEqual(w.shownAs("ann"), ["online", "offline"]);
});

test("what was asked during an outage is answered after it", async (t) => {
  const fabric = await started(t);
  const w = await watch(fabric, { timeout: 60_000 }); // no answer is waited for that cannot come
  t.after(() => w.close());
  await fabric.do("stop", "server");
  await sleep(200);
  const asked = w.client.subscribe(["ann"], { signal: AbortSignal.timeout(15_000) });
  await assert.rejects(w.client.subscribe(["bob"], { signal: AbortSignal.timeout(200) }), { name: "TimeoutError" });
  await fabric.do("start", "server");
  await asked;
  await w.expect({ ann: "online", bob: "online" }, 10_000); // what was given up stays watched
});

test("a silent fanout is noticed", async (t) => {
  const fabric = await started(t);
  const w = await watch(fabric, { refresh: 300, timeout: 300, outage: 1_000 });
  t.after(() => w.close());
  await w.client.subscribe(["ann", "bob"]);
  await w.expect({ ann: "online", bob: "online" });
  await fabric.do("stop", "fanout");
  await w.expect({ ann: "unknown/fanout_silent" }, 10_000);
  await fabric.do("close", "bob", "phone");
  await sleep(2_000);
  await fabric.do("start", "fanout");
  await w.expect({ ann: "online", bob: "offline" }, 15_000);
  assert.deepEqual(w.shownAs("ann"), ["online", "unknown/fanout_silent", "online"]);
  assert.deepEqual(w.shownAs("bob"), ["online", "unknown/fanout_silent", "offline"]);
});

test("a new fanout needs no help", async (t) => {
  const fabric = await started(t);
  const w = await watch(fabric);
  t.after(() => w.close());
  await w.client.subscribe(["ann"]);
  await w.expect({ ann: "online" });
  const { version } = w.client.states.get("ann")!;
  await sleep(1_000); // a generation is a second
  await fabric.do("stop", "fanout");
  await fabric.do("start", "fanout");
  await fabric.do("close", "ann", "phone");
  await w.expect({ ann: "offline" }, 10_000);
  assert.ok(w.client.states.get("ann")!.version > version);
  assert.deepEqual(w.shownAs("ann"), ["online", "offline"]);
});

test("a silent keeper is told by the fanout", async (t) => {
  const fabric = await started(t, "-outage=3s");
  const w = await watch(fabric);
  t.after(() => w.close());
  await w.client.subscribe(["ann"]);
  await w.expect({ ann: "online" });
  await fabric.do("stop", "keeper");
  await w.expect({ ann: "unknown/keeper_silent" }, 10_000);
  const asked = await w.client.get(["ann"]);
  assert.equal(asked.get("ann")?.reason, "keeper_silent");
  await fabric.do("start", "keeper");
  await w.expect({ ann: "online" }, 15_000);
  assert.deepEqual(w.shownAs("ann"), ["online", "unknown/keeper_silent", "online"]);
});
