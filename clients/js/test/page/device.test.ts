import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import type { Page } from "playwright-core";
import { Fabric } from "../fabric.js";
import { eventually, sleep, watch, type Watcher } from "../watcher.js";
import { Window } from "./browser.js";

const pages = fileURLToPath(new URL("../../page", import.meta.url));

// The preset for phones, thirty times as fast.
const HEARTBEAT = 2_000;
const TIMEOUT = 6_667;
const DEBOUNCE = 1_500;
const IDLE = 3_000;
const fast = ["-preset", "mobile", "-hurry", "30", "-debounce", `${DEBOUNCE}ms`, "-idle", `${IDLE}ms`];

let fabric: Fabric;
let window: Window;
let watcher: Watcher;
before(async () => {
  fabric = await Fabric.start("-page", pages, ...fast);
  window = await Window.open("--host-resolver-rules=MAP rollcall.test 127.0.0.1");
  watcher = await watch(fabric);
});
after(async () => {
  await watcher?.close();
  await window?.close();
  await fabric?.stop();
});

/** Opens a page that is a device of the user. */
async function open(user: string, options: Readonly<Record<string, string>> = {}, host = "127.0.0.1"): Promise<Page> {
  const page = await window.context.newPage();
  page.setDefaultTimeout(15_000);
  const query = new URLSearchParams({ user, token: await fabric.bearer(user), ...options });
  const site = new URL(`device.html?${query}`, fabric.addresses.page);
  site.hostname = host;
  await page.goto(site.href);
  await page.locator('html[data-phase="connected"]').waitFor();
  return page;
}

/** Waits until the page speaks for the device, and says how long that took. */
async function led(page: Page): Promise<number> {
  const began = Date.now();
  await page.locator('html[data-leading="true"][data-phase="connected"]').waitFor();
  return Date.now() - began;
}

/** What the device's page shows under a name. */
function shown(page: Page, name: string) {
  return page.locator(`dt:text-is("${name}") + dd`).textContent();
}

async function lifecycle(page: Page, state: "frozen" | "active"): Promise<void> {
  await (await window.context.newCDPSession(page)).send("Page.setWebLifecycleState", { state });
}

async function counts(): Promise<{ open: number; heartbeat: number; close: number }> {
  const [open = 0, heartbeat = 0, close = 0] = await Promise.all(["open", "heartbeat", "close"].map((op) => fabric.count(op)));
  return { open, heartbeat, close };
}

/** Says how often the gateway was asked during something. */
async function counted(something: () => Promise<void>): Promise<{ open: number; heartbeat: number; close: number }> {
  const first = await counts();
  await something();
  const last = await counts();
  return { open: last.open - first.open, heartbeat: last.heartbeat - first.heartbeat, close: last.close - first.close };
}

test("two tabs have one heartbeat; when the leading one is closed, the other goes on and nobody sees it", async () => {
  await watcher.client.subscribe(["ann"]);
  const first = await open("ann");
  const second = await open("ann");
  await watcher.expect({ ann: "online" });
  assert.equal(await shown(second, "device"), await shown(first, "device"));
  assert.equal(await shown(second, "leading"), "false");

  const together = await counted(() => sleep(4 * HEARTBEAT));
  assert.equal(together.open, 0);
  // The first tab is hidden, so that its timers may be a second late; two streams would be six at least.
  assert.ok(together.heartbeat >= 2 && together.heartbeat <= 5, String(together.heartbeat));

  let took = 0;
  const handover = await counted(async () => {
    await first.close();
    took = await led(second);
  });
  assert.ok(took < HEARTBEAT, `${took} ms`);
  assert.deepEqual({ open: handover.open, close: handover.close }, { open: 1, close: 0 });

  const third = await open("ann");
  await second.goto("chrome://crash").catch(() => {}); // its renderer dies
  assert.ok((await led(third)) < HEARTBEAT);
  await sleep(DEBOUNCE + 1_000);
  assert.deepEqual([...new Set(watcher.shownAs("ann"))], ["online"]);

  const goodbye = await counted(async () => {
    await third.close();
    await watcher.expect({ ann: "offline" }, DEBOUNCE + 2_000); // it said goodbye, or this would take the timeout
  });
  assert.equal(goodbye.close, 1);
});

test("a tab that the browser froze is not shown offline, unless it is alone and stays so", async () => {
  await watcher.client.subscribe(["solo", "cold", "duo"]);
  const solo = await open("solo");
  const cold = await open("cold");
  const first = await open("duo");
  const second = await open("duo");
  await watcher.expect({ solo: "online", cold: "online", duo: "online" });
  assert.equal(await first.evaluate(() => document.visibilityState), "hidden");
  await lifecycle(first, "frozen");
  assert.ok((await led(second)) < HEARTBEAT);

  // The browser has closed the sockets of those that are alone, and the debounce is over.
  const frozen = await counted(async () => {
    await lifecycle(solo, "frozen");
    await lifecycle(cold, "frozen");
    await sleep(TIMEOUT - HEARTBEAT);
  });
  assert.deepEqual({ ...frozen, heartbeat: 0 }, { open: 2, heartbeat: 0, close: 0 });
  assert.deepEqual([...new Set(watcher.shownAs("cold"))], ["online"]);
  await lifecycle(solo, "active");
  await led(solo);

  await sleep(HEARTBEAT + DEBOUNCE); // by now the session of the first has ended
  await lifecycle(first, "active");
  await first.locator('html[data-phase="connected"][data-leading="false"]').waitFor();
  assert.deepEqual([...new Set([...watcher.shownAs("solo"), ...watcher.shownAs("duo")])], ["online"]);
  await watcher.expect({ cold: "offline" });
  await lifecycle(cold, "active");
  await watcher.expect({ cold: "online" });
  await Promise.all([solo, cold, first, second].map((page) => page.close()));
});

test("whether somebody looks, and does something, is seen", async () => {
  await watcher.client.subscribe(["eva"]);
  const state = (want: string) => eventually(() => assert.equal(watcher.client.states.get("eva")?.state, want), IDLE + 2_000);
  const page = await open("eva", { transport: "http" });
  assert.equal(await shown(page, "transport"), "http");
  await state("active");
  await state("idle");
  await page.mouse.move(10, 10);
  await state("active");
  const other = await window.context.newPage();
  await other.bringToFront();
  await state("background");
  await page.bringToFront();
  await state("active");
  await other.close();
  await page.getByPlaceholder("reading").fill("chess");
  await page.getByPlaceholder("reading").blur();
  await eventually(() => assert.equal(watcher.client.states.get("eva")?.activity, "chess"));
  await page.close();
  await watcher.expect({ eva: "offline" }, DEBOUNCE + 2_000);
});

test("without TLS there are no locks, and tabs know of each other all the same", async () => {
  await watcher.client.subscribe(["hal"]);
  const first = await open("hal", {}, "rollcall.test");
  assert.equal(await first.evaluate(() => "locks" in navigator), false);
  const second = await open("hal", {}, "rollcall.test");
  assert.equal(await shown(second, "leading"), "false");
  await first.close();
  assert.ok((await led(second)) < HEARTBEAT);
  await sleep(DEBOUNCE + 1_000);
  assert.deepEqual([...new Set(watcher.shownAs("hal"))], ["online"]);
  await second.getByRole("button", { name: "Log out" }).click();
  await second.locator('html[data-phase="closed"]').waitFor();
  await watcher.expect({ hal: "offline" });
});

test("a page outlives its gateway, and its token", async () => {
  await watcher.client.subscribe(["ida"]);
  const page = await open("ida");
  await fabric.do("stop", "gateway");
  await page.locator('html[data-phase="connecting"]').waitFor();
  await fabric.do("start", "gateway");
  await page.locator('html[data-phase="connected"]').waitFor();
  await watcher.expect({ ida: "online" }); // whoever tells of it, since the debounce is shorter than its pauses
  await page.close();

  const refused = await window.context.newPage();
  const query = new URLSearchParams({ user: "ida", token: "nonsense" });
  await refused.goto(`${fabric.addresses.page}/device.html?${query}`);
  await refused.locator('html[data-phase="refused"]').waitFor();
  assert.match((await refused.locator("#problem").textContent()) ?? "", /UNAUTHENTICATED/);
  await refused.close();
});

/** The query of a page that is a device of the user and shows others. */
async function contactsOf(user: string, targets: readonly string[]): Promise<URLSearchParams> {
  const query = new URLSearchParams({
    user,
    token: await fabric.bearer(user),
    server: fabric.addresses.websocket,
    credentials: (await fabric.token("viewer", user)).file,
  });
  for (const target of targets) query.append("target", target);
  return query;
}

test("what is shown with React works", async () => {
  await fabric.do("connect", "liz", "phone");
  const page = await window.context.newPage();
  page.setDefaultTimeout(15_000);
  await page.goto(`${fabric.addresses.page}/snippets.html?${await contactsOf("max", ["liz", "nobody"])}`);
  for (const text of ["active", "liz online", "nobody not known"]) await page.getByText(text, { exact: true }).waitFor();
  await fabric.do("close", "liz", "phone");
  await page.getByText("liz offline").waitFor();
  await page.close();
});

test("with React: contacts, and the page as a device", async () => {
  await fabric.do("connect", "joe", "phone");
  const page = await window.context.newPage();
  page.setDefaultTimeout(15_000);
  const query = await contactsOf("kim", ["joe", "kim", "nobody"]);
  await page.goto(`${fabric.addresses.page}/react.html?${query}`);
  const contact = (name: string, status: string) => page.locator(`li[data-target="${name}"][data-status="${status}"]`);
  await contact("joe", "online").waitFor();
  await contact("kim", "online").waitFor();
  assert.equal(await page.locator("#me").textContent(), "kim: active");
  assert.equal(await page.locator('li[data-target="nobody"]').getAttribute("data-status"), null);
  await fabric.do("close", "joe", "phone");
  await contact("joe", "offline").waitFor();
  await page.getByRole("button", { name: "Hide contacts" }).click();
  await page.getByRole("button", { name: "Show contacts" }).click();
  await contact("joe", "offline").waitFor();
  await page.close();
});
