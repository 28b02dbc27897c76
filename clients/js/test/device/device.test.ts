import assert from "node:assert/strict";
import { test } from "node:test";
import { has } from "./has.js";
import { World } from "./world.js";

const MINUTE = 60_000;

test("a device registers, and sends heartbeats when the gateway wants them", async () => {
  const world = new World();
  const { device } = await world.open({ client: { version: "1.2" } });
  const [open] = world.gateway.calls;
  assert.equal(open?.by, "websocket");
  has(open.body, {
    token: "ann",
    foreground: true,
    active: true,
    client: { type: "web", version: "1.2" },
  });
  has(device.status, { phase: "connected", leading: true, transport: "websocket", foreground: true });
  assert.equal(device.status.device, open.body["device"]);
  await world.pass(10 * MINUTE);
  const beats = world.gateway.of("heartbeat");
  assert.equal(world.gateway.of("open").length, 1);
  assert.deepEqual(beats.map((b) => b.body["seq"]), beats.map((_, i) => i + 1));
  const { calls } = world.gateway; // a state counts as a heartbeat
  const gaps = calls.slice(1).map((b, i) => b.at - calls[i]!.at).filter((gap) => gap > 0);
  assert.ok(gaps.every((gap) => gap <= 30_100) && gaps.filter((gap) => gap < 27_000).length <= 1, String(gaps));
});

test("input keeps a page active, and without it is idle at the threshold", async () => {
  const world = new World();
  const tab = await world.open();
  await world.pass(4 * MINUTE);
  await tab.happen("input");
  await world.pass(4 * MINUTE);
  assert.deepEqual(world.gateway.of("state"), []);
  await world.pass(MINUTE - 100);
  assert.ok(tab.device.status.active);
  await world.pass(500);
  has(world.gateway.last, { foreground: true, active: false });
  await tab.happen("input");
  await world.pass(10);
  has(world.gateway.last, { foreground: true, active: true });
});

test("a hidden page is in the background, but a glance away is nothing", async () => {
  const world = new World();
  const tab = await world.open();
  await tab.hide();
  await world.pass(200);
  await tab.show();
  await world.pass(1_000);
  assert.deepEqual(world.gateway.of("state"), []);
  await tab.hide();
  await world.pass(400);
  has(world.gateway.last, { foreground: false, active: false });
  await tab.show();
  await world.pass(10);
  has(world.gateway.last, { foreground: true, active: true });
});

test("an activity is told, and one too long refused", async () => {
  const world = new World();
  const { device } = await world.open({ activity: "reading" });
  assert.equal(world.gateway.last["activity"], "reading");
  device.activity = "in a call";
  await world.pass(10);
  assert.deepEqual(world.gateway.of("state").map((c) => c.body["activity"]), ["in a call"]);
  device.activity = undefined;
  await world.pass(10);
  assert.equal(world.gateway.of("state").at(-1)?.body["activity"], ""); // left out, it would be as before
  assert.throws(() => (device.activity = "ä".repeat(33)), /66 bytes/);
});

test("goodbye: by close, by logout, and from a page that is left", async () => {
  const world = new World();
  const first = await world.open();
  await Promise.all([first.device.close(), world.pass(100)]);
  assert.equal(world.gateway.last["reason"], "goodbye");
  assert.equal(first.device.status.phase, "closed");
  const second = await world.open();
  await Promise.all([second.device.close({ logout: true }), world.pass(100)]);
  assert.equal(world.gateway.last["reason"], "logout");
  const third = await world.open();
  const [open] = world.gateway.of("open").slice(-1);
  await third.leave();
  assert.equal(third.beacons.length, 1);
  has(world.gateway.last, { reason: "goodbye", token: "ann" });
  assert.equal(world.gateway.sessions.size, 0);
  assert.ok(open);
  const names = world.gateway.of("open").map((c) => c.body["session"]);
  assert.equal(new Set(names).size, 3); // after a goodbye it is a new session,
  assert.equal(new Set(world.gateway.of("open").map((c) => c.body["device"])).size, 1); // of the same device
});

test("nobody waits for a gateway that does not hear the goodbye", async () => {
  const world = new World();
  const { device } = await world.open();
  world.gateway.mute = true;
  await Promise.all([device.close(), world.pass(2_100)]);
  assert.equal(device.status.phase, "closed");
});

test("a page that is come back to opens again", async () => {
  const world = new World();
  const tab = await world.open();
  await tab.happen("left");
  assert.equal(world.gateway.of("close").length, 1);
  await world.pass(5 * MINUTE);
  assert.equal(world.gateway.calls.length, 2);
  await tab.happen("woken");
  await world.pass(100);
  assert.equal(world.gateway.of("open").length, 2);
  assert.equal(tab.device.status.phase, "connected");
});

test("a gateway that has forgotten the session has it registered again, spread over two seconds", async () => {
  const after: number[] = [];
  for (let run = 0; run < 20; run++) {
    const world = new World(run);
    await world.open({ transport: "http" });
    world.gateway.sessions.clear();
    while (world.gateway.of("open").length < 2) await world.pass(100);
    after.push(world.time - (world.gateway.of("heartbeat")[0]?.at ?? 0));
    const [first, second] = world.gateway.of("open");
    assert.equal(second?.body["session"], first?.body["session"]); // it goes on
  }
  assert.ok(Math.max(...after) <= 2_100 && Math.max(...after) > 1_000 && Math.min(...after) < 500, String(after));
});

test("a socket that breaks is replaced, within a second at first and 15 at most", async () => {
  const world = new World();
  const { device } = await world.open();
  world.gateway.restart();
  await world.pass(1_100);
  assert.equal(device.status.phase, "connected");
  world.gateway.down = true;
  world.gateway.restart();
  await world.pass(10 * MINUTE);
  assert.equal(device.status.phase, "connecting");
  assert.equal(device.status.error?.code, "UNREACHABLE");
  world.gateway.down = false;
  await world.pass(15_100);
  assert.equal(device.status.phase, "connected");
  assert.equal(device.status.error, undefined);
});

test("a gateway that drains is left, spread over five seconds", async () => {
  const after: number[] = [];
  for (let run = 0; run < 20; run++) {
    const world = new World(run);
    await world.open();
    const at = world.time;
    world.gateway.restart(1012);
    while (world.gateway.of("open").length < 2) await world.pass(100);
    after.push(world.time - at);
  }
  assert.ok(Math.max(...after) <= 5_200 && Math.max(...after) > 3_000 && Math.min(...after) < 1_500, String(after));
});

test("a gateway that does not answer is taken for gone", async () => {
  const world = new World();
  const { device } = await world.open();
  world.gateway.mute = true;
  await world.pass(40_100); // a heartbeat, and ten seconds
  assert.equal(device.status.phase, "connecting");
  world.gateway.mute = false;
  await world.pass(20_000);
  assert.equal(device.status.phase, "connected");
});

test("where there is no WebSocket it goes by HTTP, and moves up when there is one", async () => {
  const world = new World();
  world.gateway.socketless = true;
  const { device } = await world.open();
  assert.equal(device.status.transport, "http");
  world.gateway.socketless = false;
  await world.pass(4.9 * MINUTE);
  assert.ok(world.gateway.of("heartbeat").every((c) => c.by === "http"));
  await world.pass(0.2 * MINUTE);
  assert.equal(device.status.transport, "websocket");
  assert.equal(world.gateway.sessions.size, 1);
  await world.pass(MINUTE);
  assert.equal(world.gateway.of("open").length, 2);
});

test("by HTTP a lost answer is asked for again, in the same session", async () => {
  const world = new World();
  const { device } = await world.open({ transport: "http" });
  world.gateway.down = true;
  await world.pass(35_000);
  world.gateway.down = false;
  await world.pass(10_000);
  assert.equal(world.gateway.of("open").length, 1);
  assert.ok(world.gateway.of("heartbeat").length >= 1);
  assert.equal(device.status.phase, "connected");
});

test("only WebSocket is only WebSocket", async () => {
  const world = new World();
  world.gateway.socketless = true;
  const { device } = await world.open({ transport: "websocket" });
  await world.pass(MINUTE);
  assert.equal(world.gateway.calls.length, 0);
  assert.equal(device.status.phase, "connecting");
});

test("who asks to be left alone is", async () => {
  const world = new World();
  await world.open();
  world.gateway.refusal = { code: "UNAVAILABLE", retryAfterMs: 20_000 };
  await world.pass(31_000);
  assert.equal(world.gateway.of("heartbeat").length, 1);
  await world.pass(15_000);
  assert.equal(world.gateway.calls.length, 2);
  world.gateway.refusal = undefined;
  await world.pass(30_000);
  assert.equal(world.gateway.of("open").length, 1); // the session is still the same
});

test("a token that is refused is asked for again; if the next is as well, it takes its time", async () => {
  const world = new World();
  const asked: number[] = [];
  const token = async () => {
    asked.push(world.time);
    return `token ${asked.length}`;
  };
  world.gateway.refusal = { code: "UNAUTHENTICATED" };
  const { device } = await world.open({ token });
  await world.pass(1_000);
  assert.equal(asked.length, 2, String(asked));
  assert.equal(world.gateway.last["token"], "token 2");
  assert.equal(device.status.phase, "refused");
  assert.equal(device.status.error?.code, "UNAUTHENTICATED");
  await world.pass(60 * MINUTE);
  assert.ok(asked.length > 4 && asked.length < 40, String(asked.length));
  world.gateway.refusal = undefined;
  device.open();
  await world.pass(1_100);
  assert.equal(device.status.phase, "connected");
});

test("a token that cannot be had is no reason to give up", async () => {
  const world = new World();
  let fails = true;
  const token = () => {
    if (fails) throw new Error("the backend is away");
    return "t";
  };
  const { device } = await world.open({ token });
  assert.equal(device.status.error?.code, "NO_TOKEN");
  fails = false;
  await world.pass(30_000);
  assert.equal(device.status.phase, "connected");
});

test("a device that is connected elsewhere does not fight", async () => {
  const world = new World();
  const { device } = await world.open();
  const [session] = world.gateway.sessions.values();
  assert.ok(session);
  world.gateway.supersede(session);
  await world.pass(60 * MINUTE);
  assert.equal(device.status.phase, "superseded");
  assert.equal(world.gateway.of("open").length, 1);
  device.open();
  await world.pass(1_000);
  assert.equal(device.status.phase, "connected");
});

test("a laptop that slept is back at once", async () => {
  const world = new World();
  await world.open();
  await world.pass(5_000);
  const before = world.gateway.calls.length;
  await world.sleep(40_000); // less than the gateway waits
  await world.pass(5_000); // its timer has 22 s left
  assert.deepEqual(world.gateway.calls.slice(before).map((c) => c.op), ["heartbeat"]);
  await world.sleep(60 * MINUTE);
  await world.pass(7_100);
  assert.equal(world.gateway.of("open").length, 2);
  assert.equal(world.gateway.of("heartbeat").length, 1); // nothing is said in a session that must have ended
});

test("nobody is disturbed by a clock that is set", async () => {
  for (const skew of [-60 * MINUTE, -1_000, 900, 1_100, 50_000]) {
    const world = new World();
    await world.open();
    await world.pass(MINUTE);
    world.skew = skew;
    await world.pass(2 * MINUTE);
    assert.equal(world.gateway.of("open").length, 1, String(skew));
    const beats = world.gateway.of("heartbeat").map((c) => c.at);
    assert.ok(beats.length >= 6 && beats.length <= 7, String(beats));
    assert.ok(Math.max(...beats.slice(1).map((at, i) => at - beats[i]!)) <= 30_100);
  }
});

test("without a network nothing is tried, and with one at once", async () => {
  const world = new World();
  const tab = await world.open();
  tab.connected = false;
  await tab.happen("offline");
  world.gateway.down = true;
  world.gateway.restart();
  await world.pass(29_000);
  world.gateway.down = false;
  assert.equal(tab.device.status.phase, "connecting");
  tab.connected = true;
  await tab.happen("online");
  await world.pass(1_100);
  assert.equal(tab.device.status.phase, "connected");
});

test("a message too many is refused without a name, and no reason to come again", async () => {
  const world = new World();
  const { device } = await world.open();
  world.gateway.nameless = true;
  world.gateway.refusal = { code: "RATE_LIMITED", retryAfterMs: 200 };
  device.activity = "typing";
  await world.pass(100);
  world.gateway.refusal = undefined;
  world.gateway.nameless = false;
  await world.pass(1_500);
  assert.deepEqual(world.gateway.of("open").length, 1);
  assert.equal(world.gateway.last["activity"], "typing");
});

test("nonsense is no answer", async () => {
  const world = new World();
  world.gateway.answer = () => ({ sessionId: 7 });
  const { device } = await world.open();
  assert.equal(device.status.error?.code, "MALFORMED");
});

test("what cannot be is refused at once", async () => {
  const world = new World();
  await assert.rejects(world.open({ user: "" }), /invalid_id/);
  await assert.rejects(world.open({ device: "x".repeat(129) }), /invalid_id/);
  await assert.rejects(world.open({ url: "ftp://gateway.test" }), RangeError);
  await assert.rejects(world.open({ url: "https://gateway.test/?a=b" }), RangeError);
  await assert.rejects(world.open({ timeout: 0 }), RangeError);
  await assert.rejects(world.open({ activity: "x".repeat(65) }), RangeError);
  await assert.rejects(world.open({ transport: "pigeon" as "http" }), RangeError);
});
