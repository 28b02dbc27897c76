import assert from "node:assert/strict";
import { after, before, test, type TestContext } from "node:test";
import { headers, PermissionViolationError, RequestError } from "@nats-io/nats-core";
import type { Granularity, NewRelations, NewStatus, Policy } from "../src/index.js";
import { Fabric } from "./fabric.js";
import { dial, eventually, refusal, sleep, watch, watchOn, type Watcher } from "./watcher.js";

let fabric: Fabric;
before(async () => (fabric = await Fabric.start()));
after(() => fabric.stop());

/** A user who is online, watches itself and is watched by another. */
async function pair(t: TestContext, user: string, viewer: string): Promise<{ self: Watcher; other: Watcher }> {
  await fabric.do("connect", user, "phone");
  const self = await watch(fabric, { viewer: user });
  const other = await watch(fabric, { viewer });
  t.after(() => Promise.all([self.close(), other.close()]));
  for (const w of [self, other]) {
    await w.client.subscribe([user]);
    await w.expect({ [user]: "online" });
  }
  return { self, other };
}

const nothing: Policy = { user: "", contacts: [], blocks: [], overrides: new Map(), groups: [], statuses: [] };

test("a block shows at once, and ends", async (t) => {
  const { self, other } = await pair(t, "ann", "vera");
  assert.deepEqual(await self.client.policy.get(), { ...nothing, user: "ann" });
  assert.deepEqual((await self.client.policy.block(["vera", "vic"])).blocks, ["vera", "vic"]);
  assert.equal((await other.client.get(["ann"])).size, 0, "in effect when it is answered");
  await other.expect({ ann: "" });
  assert.equal(other.shownAs("ann").at(-1), "withdrawn");
  await self.expect({ ann: "online" });
  assert.deepEqual((await self.client.policy.block(["vera"])).blocks, ["vera", "vic"]); // again
  assert.deepEqual((await self.client.policy.unblock(["vera", "vic"])).blocks, []);
  await other.expect({ ann: "online" });
});

test("who may know how much: relations, contacts, single viewers", async (t) => {
  const { self, other } = await pair(t, "bea", "vito");
  const { policy } = self.client;
  assert.deepEqual(await policy.set({ everyone: "absent", contact: "exact", member: "coarse" }), {
    ...nothing, user: "bea", everyone: "absent", contact: "exact", member: "coarse",
  });
  await other.expect({ bea: "" });
  assert.deepEqual((await policy.contact(["vito"])).contacts, ["vito"]);
  await other.expect({ bea: "online" });
  const allowed = await policy.allow(["vito", "__proto__", "🦉"], "hidden");
  assert.deepEqual(allowed.overrides, new Map([["__proto__", "hidden"], ["vito", "hidden"], ["🦉", "hidden"]]));
  await other.expect({ bea: "unknown" });
  assert.deepEqual([...(await policy.reset(["vito", "🦉"])).overrides.keys()], ["__proto__"]);
  await other.expect({ bea: "online" });
  assert.deepEqual((await policy.uncontact(["vito"])).contacts, []);
  await other.expect({ bea: "" });
  const { contact, member, everyone } = await policy.set({ everyone: "default", member: "default", contact: "coarse" });
  assert.deepEqual({ contact, member, everyone }, { contact: "coarse", member: undefined, everyone: undefined });
  await other.expect({ bea: "online" });
});

test("invisible is offline to others", async (t) => {
  const { self, other } = await pair(t, "cat", "vlad");
  await self.client.policy.status({ availability: "invisible" });
  await other.expect({ cat: "offline" });
  await eventually(() => assert.equal(self.client.states.get("cat")?.availability, "invisible"));
  assert.equal(self.client.states.get("cat")?.status, "online");
  assert.equal(other.client.states.get("cat")?.availability, undefined);
  assert.deepEqual((await self.client.policy.clear()).statuses, []);
  await other.expect({ cat: "online" });
});

test("a status has words and an end, and the highest priority counts", async (t) => {
  const { self, other } = await pair(t, "dan", "viola");
  const { policy } = self.client;
  const says = (want: object) =>
    eventually(() => {
      const { availability, text } = other.client.states.get("dan")!;
      assert.deepEqual({ availability, text }, { availability: undefined, text: undefined, ...want });
    });
  const until = new Date(Date.now() + 3_000);
  await policy.status({ availability: "away", text: "at home" });
  const meeting: NewStatus = { availability: "dnd", text: "in a meeting 🦉", priority: 10, until };
  const { statuses } = await policy.status(meeting);
  assert.deepEqual(statuses, [meeting, { availability: "away", text: "at home", priority: 0 }]);
  await says({ availability: "dnd", text: "in a meeting 🦉" });
  await says({ availability: "away", text: "at home" }); // nobody has done anything
  assert.equal((await policy.get()).statuses.length, 1);
  // A status that was read may be set, and its end be a number.
  const later = Date.now() + 60_000;
  const [again] = (await policy.status({ ...statuses[0]!, until: later })).statuses;
  assert.deepEqual(again, { ...meeting, until: new Date(later) });
  await policy.clear(0);
  await says({ availability: "dnd", text: "in a meeting 🦉" });
  assert.deepEqual((await policy.clear(10)).statuses, []);
  await says({});
});

test("what is asked wrongly is refused, and changes nothing", async (t) => {
  const w = await watch(fabric, { viewer: "eve" });
  t.after(() => w.close());
  const { policy } = w.client;
  const many = Array.from({ length: 10_001 }, (_, i) => `u${i}`);
  for (const change of [(ids: string[]) => policy.block(ids), (ids: string[]) => policy.allow(ids, "exact")]) {
    await assert.rejects(change([]), refusal("invalid_request"));
    await assert.rejects(change(["bob", ""]), refusal("invalid_id"));
    await assert.rejects(change(["x".repeat(129)]), refusal("invalid_id"));
    await assert.rejects(change(["half \ud83e"]), refusal("invalid_id"));
    await assert.rejects(change(many), refusal("too_many"));
  }
  const relations: unknown[] = [{}, { everyone: "none" }, { everyone: null }, { contacts: "exact" }, { default: ["member"] }];
  for (const bad of relations) await assert.rejects(policy.set(bad as NewRelations), refusal("invalid_request"), JSON.stringify(bad));
  for (const bad of ["default", "none", undefined]) {
    await assert.rejects(policy.allow(["bob"], bad as Granularity), refusal("invalid_request"), bad);
  }
  const statuses: unknown[] = [
    { availability: "busy" }, { availability: undefined }, { availability: "away", message: "lunch" },
    { availability: "away", text: "x".repeat(129) }, { availability: "away", text: "two\nlines" },
    { availability: "away", text: "half \ud83e" },
    { availability: "away", priority: 1_001 }, { availability: "away", priority: NaN }, { availability: "away", priority: 1.5 },
    { availability: "away", until: 60_000 }, { availability: "away", until: NaN }, { availability: "away", until: Infinity },
    { availability: "away", until: new Date("never") },
  ];
  for (const bad of statuses) await assert.rejects(policy.status(bad as NewStatus), refusal("invalid_request"), JSON.stringify(bad));
  await assert.rejects(policy.clear(NaN), refusal("invalid_request"));
  assert.deepEqual(await policy.get(), { ...nothing, user: "eve" });

  for (let priority = 0; priority < 8; priority++) await policy.status({ availability: "away", priority });
  await assert.rejects(policy.status({ availability: "away", priority: 8 }), refusal("too_many"));
  await policy.block(many.slice(0, 10_000));
  await assert.rejects(policy.block(["one more"]), refusal("too_many"));
  await w.client.close();
  await assert.rejects(policy.get(), refusal("closed"));
});

test("nobody changes the policy of another, or joins a group", async (t) => {
  const nc = await dial(fabric, "viewer", "mallory");
  const w = await watchOn(nc, { viewer: "ann" });
  t.after(() => w.close());
  await assert.rejects(w.client.policy.block(["vera"]), refusal("forbidden"));
  for (const subject of ["get.ann", "block.ann", "join.mallory", "leave.mallory", "forget.mallory"]) {
    await assert.rejects(nc.request(`presence.policy.${subject}`, "{}"), (err) => {
      assert.ok(err instanceof RequestError && err.cause instanceof PermissionViolationError, String(err));
      return true;
    }, subject);
  }
});

interface Asked {
  readonly op: string;
  readonly body: unknown;
}

/** A fanout that answers the nth operation with a code, if that is empty with a policy, without one not at all. */
async function scripted(t: TestContext, prefix: string, script: (nth: number) => string | undefined) {
  const nc = await dial(fabric, "operator", "fanout");
  const asked: Asked[] = [];
  nc.subscribe(`${prefix}.policy.*.fay`, {
    callback: (_, m) => {
      const code = script(asked.push({ op: m.subject.split(".")[2]!, body: m.json() }));
      const h = headers();
      if (code) h.set("Nats-Service-Error-Code", code);
      if (code !== undefined) m.respond(code ? "" : '{"user":"fay","later":1}', { headers: h });
    },
  });
  await nc.flush();
  const w = await watchOn(await dial(fabric, "operator", "fay"), { viewer: "fay", prefix, timeout: 500 });
  t.after(() => Promise.all([w.close(), nc.close()]));
  return { policy: w.client.policy, asked };
}

test("operations are tried again, one after the other", async (t) => {
  const passing = ["unavailable", "rate_limited", "internal"];
  const { policy, asked } = await scripted(t, "again", (nth) => passing[nth - 1] ?? "");
  const all = [policy.block(["vera"]), policy.unblock(["vera"]), policy.clear(), policy.clear(0), policy.set({ member: "default" })];
  for (const p of await Promise.all(all)) assert.deepEqual(p, { ...nothing, user: "fay" });
  const users = ["vera"];
  const block = { op: "block", body: { users } };
  assert.deepEqual(asked, [
    block, block, block, block, { op: "unblock", body: { users } },
    { op: "clear", body: {} }, { op: "clear", body: { priority: 0 } }, { op: "set", body: { default: ["member"] } },
  ]);
});

test("an answer that is too large is not asked for again", async (t) => {
  const { policy, asked } = await scripted(t, "large", () => "too_large");
  await assert.rejects(policy.block(["vera"]), refusal("too_large"));
  assert.equal(asked.length, 1);
});

test("a request that is too large is not sent", async (t) => {
  const w = await watch(fabric, { viewer: "hal" });
  t.after(() => w.close());
  const long = Array.from({ length: 10_000 }, (_, i) => String(i).padStart(128, "x"));
  await assert.rejects(w.client.policy.block(long), refusal("too_many"));
  assert.equal((await w.client.policy.block(long.slice(0, 5_000))).blocks.length, 5_000);
});

test("a signal ends the waiting and the trying, and what waits behind goes on", async (t) => {
  const { policy, asked } = await scripted(t, "silent", (nth) => (nth === 1 ? undefined : ""));
  const began = Date.now();
  const signal = AbortSignal.timeout(200);
  const ended = [policy.block(["vera"], { signal }), policy.unblock(["vera"], { signal })];
  const kept = policy.get();
  for (const each of ended) await assert.rejects(each, { name: "TimeoutError" });
  await kept;
  assert.ok(Date.now() - began < 2_000);
  assert.deepEqual(asked.map((a) => a.op), ["block", "get"]);
  await assert.rejects(policy.get({ signal: AbortSignal.abort(new Error("no")) }), /no/);
});

test("what was asked during an outage is carried out after it", async (t) => {
  const other = await Fabric.start();
  t.after(() => other.stop());
  const w = await watch(other, { viewer: "gil", timeout: 60_000 }); // no answer is waited for that cannot come
  t.after(() => w.close());
  await other.do("stop", "server");
  await sleep(200);
  const asked = w.client.policy.block(["vera"]);
  await assert.rejects(w.client.policy.get({ signal: AbortSignal.timeout(200) }), { name: "TimeoutError" });
  await other.do("start", "server");
  assert.deepEqual((await asked).blocks, ["vera"]);
});
