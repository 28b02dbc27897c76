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
    assert.ok(world.gateway.longestGap() < 500);
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
    assert.ok(world.gateway.longestGap() < 500);
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

  test(`${name}: where the next to lead is stopped without a word, the one after it leads`, async () => {
    const world = new World();
    const [first, second, third] = [await world.open({}, host), await world.open({}, host), await world.open({}, host)];
    await second.freeze(true);
    await first.leave();
    await world.pass(5_500);
    has(third.device.status, { phase: "connected", leading: true });
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
      assert.deepEqual([world.gateway.gaps, world.gateway.of("close")], [[], []]);
      await tab.freeze();
      await world.pass(10 * MINUTE); // the gateway has ended it
      await tab.thaw();
      await world.pass(2_500);
      assert.equal(tab.device.status.phase, "connected");
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

  test(`${name}: whatever happens to the tabs, one session says how they are, and nobody is shown offline`, async () => {
    for (let run = 0; run < 50; run++) {
      const world = new World(run);
      const browser = new Browser(world, host);
      for (let step = 0; step < 25; step++) {
        await browser.disturb();
        await world.pass(world.random() < 0.7 ? world.random() * 2_000 : world.random() * MINUTE);
      }
      await world.pass(3 * MINUTE);
      const { running } = browser;
      const told = `run ${run}: ${browser.story.join(", ")}`;
      for (const { device } of running) {
        has({ ...device.status, told }, { phase: "connected", foreground: running.some((t) => t.visible), told });
      }
      if (running.length > 0) {
        assert.equal(running.filter((t) => t.device.status.leading).length, 1, told);
        assert.equal(world.gateway.sessions.size, 1, told);
      }
      assert.equal(new Set(world.gateway.of("open").map((c) => c.body["device"])).size, 1, told);
      for (const { from, to } of world.gateway.gaps) {
        if (browser.ranAllThe(from, to)) assert.ok(to - from < DEBOUNCE, `${told}: no session from ${from} to ${to}`);
      }
    }
  });
}

const DEBOUNCE = 20_000;

/** A browser in which anything may happen. */
class Browser {
  readonly story: string[] = [];
  readonly #world: World;
  readonly #host: Partial<Host>;
  readonly #frozen = new Set<Tab>();
  /** When it began and ceased to have a tab that runs. */
  readonly #ran: { readonly from: number; to: number }[] = [];

  constructor(world: World, host: Partial<Host>) {
    this.#world = world;
    this.#host = host;
  }

  get running(): Tab[] {
    return this.#world.tabs.filter((t) => !this.#frozen.has(t));
  }

  /** Says whether there was always a tab that could speak for the device. */
  ranAllThe(from: number, to: number): boolean {
    return this.#ran.some((r) => r.from <= from && to <= r.to);
  }

  async disturb(): Promise<void> {
    const { time } = this.#world;
    this.story.push(`${Math.round(time)} ${await this.#something()}`);
    const [last] = this.#ran.slice(-1);
    if (last?.to === Infinity && this.running.length === 0) last.to = time;
    if (last?.to !== Infinity && this.running.length > 0) this.#ran.push({ from: this.#world.time, to: Infinity });
  }

  #pick<T>(all: readonly T[]): T {
    return all[Math.floor(this.#world.random() * all.length)] as T;
  }

  async #something(): Promise<string> {
    const world = this.#world;
    const chance = world.random();
    if (this.running.length === 0 || (chance < 0.25 && world.tabs.length < 4)) {
      await world.open({}, this.#host);
      return "open";
    }
    if (chance < 0.3) {
      world.gateway.restart();
      return "restart";
    }
    const tab = this.#pick(this.running);
    const which = world.tabs.indexOf(tab);
    if (chance < 0.45) {
      const silently = world.random() < 0.3;
      await tab.leave(silently);
      return `${silently ? "crash" : "leave"} ${which}`;
    }
    if (chance < 0.6) {
      const silently = world.random() < 0.3;
      await tab.hide();
      await tab.freeze(silently);
      this.#frozen.add(tab);
      return `freeze ${which}${silently ? " silently" : ""}`;
    }
    if (chance < 0.75 && this.#frozen.size > 0) {
      const cold = this.#pick([...this.#frozen]);
      this.#frozen.delete(cold);
      await cold.thaw();
      return `thaw ${world.tabs.indexOf(cold)}`;
    }
    if (tab.visible) await tab.hide();
    else await tab.show();
    return `${tab.visible ? "show" : "hide"} ${which}`;
  }
}

test("without a channel every tab is a device of its own", async () => {
  const world = new World();
  for (let i = 0; i < 2; i++) await world.open({}, { channel: undefined });
  await world.open({ share: false });
  assert.equal(new Set(world.gateway.of("open").map((c) => c.body["device"])).size, 3);
});

test("where locks or storage are refused every tab is a device of its own as well", async () => {
  const refuse = () => {
    throw new DOMException("no", "SecurityError");
  };
  const shelf = { get: () => undefined, set: refuse, remove: () => {}, watch: () => () => {} };
  for (const host of [{ locks: { request: async () => refuse() } }, { locks: undefined, shelf }] satisfies Partial<Host>[]) {
    const world = new World();
    for (let i = 0; i < 2; i++) await world.open({}, host);
    assert.equal(new Set(world.gateway.of("open").map((c) => c.body["device"])).size, 2);
    assert.ok(world.tabs.every((t) => t.device.status.phase === "connected"));
  }
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
