import assert from "node:assert/strict";
import { test } from "node:test";
import type { Host } from "../../src/device/host.js";
import { has } from "./has.js";
import { World, type Tab } from "./world.js";

const MINUTE = 60_000;

/** With Web Locks, and without. */
const elections: Readonly<Record<string, Partial<Host>>> = { "Web Locks": {}, "leases": { locks: undefined } };

function leading(world: World): Tab[] {
  return world.tabs.filter((t) => t.device.status.leading);
}

for (const [name, host] of Object.entries(elections)) {
  test(`${name}: the tabs of a browser are one device with one heartbeat`, async () => {
    const world = new World();
    for (let i = 0; i < 3; i++) await world.open({}, host);
    assert.equal(leading(world).length, 1);
    await world.pass(10 * MINUTE);
    assert.equal(world.gateway.of("open").length, 1);
    const beats = world.gateway.of("heartbeat").length;
    assert.ok(beats >= 19 && beats <= 23, String(beats));
    const [first, ...others] = world.tabs.map((t) => ({ ...t.device.status, leading: false }));
    for (const other of others) assert.deepEqual(other, first);
  });

  test(`${name}: the state is the maximum of the tabs`, async () => {
    const world = new World();
    const first = await world.open({ activity: "mail" }, host);
    await first.hide();
    const second = await world.open({ activity: "chat" }, host);
    await world.pass(1_000);
    has(second.device.status, { foreground: true, active: true, activity: "chat" });
    await world.pass(6 * MINUTE);
    has(first.device.status, { foreground: true, active: false });
    await second.happen("input");
    await world.pass(100);
    has(first.device.status, { foreground: true, active: true });
    const told = world.gateway.calls.length;
    await Promise.all([second.hide(), first.show()]); // from tab to tab, which is never the background
    await world.pass(1_000);
    has(second.device.status, { foreground: true, active: true, activity: "mail" });
    assert.ok(world.gateway.calls.slice(told).every((c) => c.body["foreground"]));
    await first.hide();
    await world.pass(1_000);
    has(second.device.status, { foreground: false, active: false });
  });

  test(`${name}: when the leading tab is closed, the next goes on with the session`, async () => {
    const world = new World();
    const first = await world.open({}, host);
    const second = await world.open({}, host);
    assert.ok(first.device.status.leading);
    await first.leave();
    await world.pass(500);
    assert.ok(second.device.status.leading);
    const opens = world.gateway.of("open");
    assert.equal(opens.length, 2);
    assert.equal(opens[1]?.body["session"], opens[0]?.body["session"]);
    assert.equal(opens[1]?.body["device"], opens[0]?.body["device"]);
    assert.equal(world.gateway.of("close").length, 0);
    assert.ok(world.gateway.gaps.every((gap) => gap < 500), String(world.gateway.gaps));
    await second.leave();
    assert.equal(world.gateway.of("close").length, 1);
  });

  test(`${name}: a device that is closed in one tab goes on in the other`, async () => {
    const world = new World();
    const first = await world.open({}, host);
    const second = await world.open({}, host);
    await Promise.all([first.device.close(), world.pass(500)]);
    has(first.device.status, { phase: "closed", leading: false });
    has(second.device.status, { phase: "connected", leading: true });
    assert.equal(world.gateway.of("close").length, 0);
  });

  test(`${name}: a leading tab that the browser stops hands over, and later follows`, async () => {
    const world = new World();
    const first = await world.open({}, host);
    await first.hide();
    const second = await world.open({}, host);
    await first.freeze();
    await world.pass(500);
    assert.ok(second.device.status.leading);
    assert.equal(world.gateway.of("close").length, 0);
    assert.ok(world.gateway.gaps.every((gap) => gap < 500), String(world.gateway.gaps));
    await world.pass(10 * MINUTE);
    await first.thaw();
    await world.pass(1_000);
    assert.deepEqual(leading(world), [second]);
    assert.equal(world.gateway.of("open").length, 2);
    assert.equal(first.device.status.phase, "connected");
  });

  test(`${name}: a tab that follows and is stopped is not what the others wait for`, async () => {
    const world = new World();
    const [first, second, third] = [await world.open({}, host), await world.open({}, host), await world.open({}, host)];
    await second.freeze();
    await first.leave();
    await world.pass(500);
    assert.ok(third.device.status.leading);
    assert.equal(third.device.status.phase, "connected");
  });

  test(`${name}: a leading tab that is stopped without a word loses the lead to one that is used`, async () => {
    const world = new World();
    const first = await world.open({}, host);
    await first.hide();
    const second = await world.open({}, host);
    await first.freeze(true);
    for (let s = 0; s < 6; s++) {
      await second.happen("input");
      await world.pass(1_000);
    }
    assert.ok(second.device.status.leading);
    await first.thaw();
    await world.pass(1_000);
    assert.deepEqual(leading(world), [second]);
    assert.equal(second.device.status.phase, "connected");
    assert.equal(first.device.status.phase, "connected");
  });

  test(`${name}: a visible tab that nobody uses finds out as well, before the gateway does`, async () => {
    const world = new World();
    const first = await world.open({}, host);
    await first.hide();
    const second = await world.open({}, host);
    await world.pass(2 * MINUTE);
    const at = world.gateway.calls.at(-1)?.at ?? 0;
    await first.freeze(true);
    await world.pass(70_000);
    assert.ok(second.device.status.leading);
    assert.ok((world.gateway.of("open")[1]?.at ?? 0) - at < 75_000);
  });

  test(`${name}: a tab that died without a word does not count for long`, async () => {
    const world = new World();
    const first = await world.open({}, host);
    const second = await world.open({}, host);
    await first.hide();
    await second.leave(true);
    await world.pass(61_000);
    has(first.device.status, { foreground: false, active: false });
  });

  test(`${name}: a tab that is alone keeps its session while it is stopped`, async () => {
    for (const transport of ["websocket", "http"]) {
      const world = new World();
      world.gateway.socketless = transport === "http";
      const tab = await world.open({}, host);
      await tab.hide();
      await tab.freeze();
      await world.pass(60_000);
      assert.equal(world.gateway.last["foreground"], false);
      const [session] = world.gateway.sessions.values();
      assert.equal(session?.socket, undefined); // the browser has closed it
      assert.ok(session);
      await tab.thaw();
      await world.pass(1_500);
      assert.equal(tab.device.status.transport, transport);
      assert.equal(new Set(world.gateway.of("open").map((c) => c.body["session"])).size, 1);
      assert.equal(world.gateway.of("open").length, transport === "http" ? 1 : 3);
      await tab.freeze();
      await world.pass(10 * MINUTE); // the gateway has ended it
      await tab.thaw();
      await world.pass(2_500);
      assert.equal(tab.device.status.phase, "connected");
      assert.deepEqual([world.gateway.gaps, world.gateway.of("close")], [[], []]);
    }
  });

  test(`${name}: who was superseded stays so in all tabs until somebody wants the device back`, async () => {
    const world = new World();
    const first = await world.open({}, host);
    const second = await world.open({}, host);
    const [session] = world.gateway.sessions.values();
    assert.ok(session);
    world.gateway.supersede(session);
    await world.pass(1_000);
    assert.equal(second.device.status.phase, "superseded");
    await first.leave();
    await world.pass(10 * MINUTE);
    has(second.device.status, { phase: "superseded", leading: true });
    const third = await world.open({}, host);
    assert.equal(third.device.status.phase, "superseded");
    third.device.open();
    await world.pass(1_500);
    has(third.device.status, { phase: "connected", leading: false });
  });

  test(`${name}: to log out ends all tabs`, async () => {
    const world = new World();
    const first = await world.open({}, host);
    const second = await world.open({}, host);
    await Promise.all([second.device.close({ logout: true }), world.pass(1_000)]);
    assert.equal(first.device.status.phase, "closed");
    assert.equal(world.gateway.last["reason"], "logout");
    assert.equal(world.gateway.sessions.size, 0);
  });

  test(`${name}: other users and other devices are others`, async () => {
    const world = new World();
    await world.open({ device: "phone" }, host);
    await world.open({ device: "tablet" }, host);
    await world.open({ user: "bob", token: "bob", device: "phone" }, host);
    assert.equal(leading(world).length, 3);
    assert.equal(world.gateway.of("open").length, 3);
  });

  test(`${name}: whatever happens to the tabs, one session says how they are`, async () => {
    for (let run = 0; run < 25; run++) {
      const world = new World();
      for (let i = 0; i < run; i++) world.random();
      const story: string[] = [];
      const frozen = new Set<Tab>();
      for (let step = 0; step < 25; step++) {
        story.push(await disturb(world, frozen, host));
        await world.pass(world.random() < 0.7 ? world.random() * 2_000 : world.random() * MINUTE);
      }
      await world.pass(2 * MINUTE);
      const living = world.tabs.filter((t) => !frozen.has(t));
      const told = `run ${run}: ${story.join(", ")}`;
      assert.equal(leading(world).filter((t) => !frozen.has(t)).length, living.length > 0 ? 1 : 0, told);
      for (const { device } of living) {
        has({ ...device.status, told }, { phase: "connected", foreground: living.some((t) => t.visible), told });
      }
      if (living.length > 0) assert.equal(world.gateway.sessions.size, 1, told);
      assert.equal(new Set(world.gateway.of("open").map((c) => c.body["device"])).size, 1, told);
    }
  });
}

/** Something happens to a tab. */
async function disturb(world: World, frozen: Set<Tab>, host: Partial<Host>): Promise<string> {
  const pick = <T>(all: readonly T[]): T => all[Math.floor(world.random() * all.length)] as T;
  const awake = world.tabs.filter((t) => !frozen.has(t));
  const chance = world.random();
  if (awake.length === 0 || (chance < 0.25 && world.tabs.length < 4)) {
    await world.open({}, host);
    return "open";
  }
  const tab = pick(awake);
  const which = ` ${world.tabs.indexOf(tab)}`;
  if (chance < 0.35) {
    await tab.leave();
    return "leave" + which;
  }
  if (chance < 0.5) {
    await tab.hide();
    await tab.freeze();
    frozen.add(tab);
    return "freeze" + which;
  }
  if (chance < 0.65 && frozen.size > 0) {
    const cold = pick([...frozen]);
    frozen.delete(cold);
    await cold.thaw();
    return `thaw ${world.tabs.indexOf(cold)}`;
  }
  if (chance < 0.75) {
    world.gateway.restart();
    return "restart";
  }
  if (tab.visible) await tab.hide();
  else await tab.show();
  return (tab.visible ? "show" : "hide") + which;
}

test("without a channel every tab is a device of its own", async () => {
  const world = new World();
  for (let i = 0; i < 2; i++) await world.open({}, { channel: undefined });
  await world.open({ share: false });
  assert.equal(new Set(world.gateway.of("open").map((c) => c.body["device"])).size, 3);
});

test("a lease is not for ever although the clock was set back", async () => {
  const world = new World();
  const first = await world.open({}, { locks: undefined });
  const second = await world.open({}, { locks: undefined });
  await second.hide();
  await first.leave(true);
  world.skew = -24 * 60 * MINUTE;
  await world.pass(76_000);
  assert.ok(second.device.status.leading);
});
