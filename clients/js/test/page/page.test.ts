import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { chromium, type Browser, type BrowserContext, type Page } from "playwright-core";
import { Fabric } from "../fabric.js";

const directory = fileURLToPath(new URL("../../page", import.meta.url));

let fabric: Fabric;
let browser: Browser;
before(async () => {
  fabric = await Fabric.start("-page", directory);
  browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu"] });
});
after(async () => {
  await browser?.close();
  await fabric?.stop();
});

/** Who looks, in which browser, and for how long the token holds. */
interface Who {
  readonly viewer?: string;
  readonly context?: BrowserContext;
  readonly ttl?: string;
}

/** Opens the list of a viewer's contacts; a reload would fail the test. */
async function open(targets: string[], { viewer = "vera", context, ttl = "1h" }: Who = {}): Promise<Page> {
  const page = await (context ?? browser).newPage();
  page.setDefaultTimeout(15_000);
  const query = new URLSearchParams({ server: fabric.addresses.websocket, viewer, outage: "500" });
  for (const t of targets) query.append("target", t);
  // The first is to check that it is one, the second to connect, the others to come back.
  for (const each of [ttl, ttl, "1h"]) query.append("token", (await fabric.token("viewer", viewer, each)).file);
  await page.goto(`${fabric.addresses.page}/?${query}`);
  await page.locator("#contacts[data-ready]").waitFor({ state: "attached" });
  page.on("framenavigated", () => assert.fail("the page was loaded again"));
  return page;
}

function contact(page: Page, target: string, attributes = "") {
  return page.locator(`li[data-target="${target}"]${attributes}`);
}

test("a contact comes online, goes away, and blocks the viewer", async () => {
  const page = await open(["ann", "bob"]);
  assert.equal(await page.locator("li").count(), 0);
  await fabric.do("connect", "ann", "phone");
  await fabric.do("connect", "bob", "phone");
  await contact(page, "ann", '[data-status="online"]').waitFor();
  await fabric.do("status", "ann", "away", "lunch");
  await contact(page, "ann", '[data-availability="away"]').waitFor();
  assert.equal(await contact(page, "ann").textContent(), "ann · away · lunch");
  await fabric.do("close", "bob", "phone");
  await contact(page, "bob", '[data-status="offline"]').waitFor();
  await fabric.do("block", "ann", "vera");
  await contact(page, "ann").waitFor({ state: "detached" });
  assert.equal(await page.locator("li").count(), 1); // bob is still there
  assert.equal(await page.locator("#problem").textContent(), "");
  await page.close();
});

test("a contact sets away and blocks the viewer on a page of its own", async () => {
  await fabric.do("connect", "eva", "phone");
  const page = await open(["eva"]);
  const context = await browser.newContext();
  const own = await open(["vera", "eva"], { viewer: "eva", context });
  await contact(page, "eva", '[data-status="online"]').waitFor();
  await own.getByLabel("I am").selectOption("away");
  await own.getByLabel("and say").fill("lunch");
  await own.getByRole("button", { name: "Set" }).click();
  await contact(page, "eva", '[data-availability="away"]').waitFor();
  assert.equal(await contact(page, "eva").textContent(), "eva · away · lunch");

  await own.getByRole("button", { name: "Block vera", exact: true }).click();
  await contact(page, "eva").waitFor({ state: "detached" });
  await own.getByRole("button", { name: "Unblock vera", exact: true }).click();
  await contact(page, "eva", '[data-availability="away"]').waitFor();

  await own.getByLabel("I am").selectOption("invisible");
  await own.getByRole("button", { name: "Set" }).click();
  await contact(page, "eva", '[data-status="offline"]').waitFor();
  await contact(own, "eva", '[data-status="online"][data-availability="invisible"]').waitFor();
  await own.getByLabel("and say").fill("x".repeat(129));
  await own.getByRole("button", { name: "Set" }).click();
  await own.locator("#problem:not(:empty)").waitFor();
  assert.match((await own.locator("#problem").textContent()) ?? "", /invalid_request/);
  assert.equal(await page.locator("#problem").textContent(), "");
  await context.close();
  await page.close();
});

test("a page outlives an outage of the server", async () => {
  await fabric.do("connect", "cat", "phone");
  const page = await open(["cat"]);
  await contact(page, "cat", '[data-status="online"]').waitFor();
  await fabric.do("stop", "server");
  await contact(page, "cat", '[data-status="unknown"]').waitFor();
  await fabric.do("start", "server");
  await contact(page, "cat", '[data-status="online"]').waitFor();
  await page.close();
});

test("a page outlives its token", async () => {
  await fabric.do("connect", "dan", "phone");
  const page = await open(["dan"], { ttl: "3s" });
  await contact(page, "dan", '[data-status="online"]').waitFor();
  await page.waitForTimeout(4_000);
  await fabric.do("close", "dan", "phone");
  await contact(page, "dan", '[data-status="offline"]').waitFor();
  await page.close();
});

test("without a token nobody is let in", async () => {
  const page = await browser.newPage();
  const query = new URLSearchParams({ server: fabric.addresses.websocket, viewer: "vera", target: "ann" });
  await page.goto(`${fabric.addresses.page}/?${query}`);
  await page.locator("#problem:not(:empty)").waitFor();
  assert.match((await page.locator("#problem").textContent()) ?? "", /Authorization/);
  query.set("token", "nonsense");
  await page.goto(`${fabric.addresses.page}/?${query}`);
  await page.locator("#problem:not(:empty)").waitFor();
  assert.match((await page.locator("#problem").textContent()) ?? "", /unable to parse credentials/);
  await page.close();
});

test("only pages of an allowed origin are let in", async () => {
  const other = await Fabric.start("-page", directory);
  const page = await browser.newPage();
  const { file } = await fabric.token("viewer", "vera");
  const query = new URLSearchParams({ server: fabric.addresses.websocket, viewer: "vera", target: "ann", token: file });
  await page.goto(`${other.addresses.page}/?${query}`);
  await page.locator("#problem:not(:empty)").waitFor();
  await other.stop();
  await page.close();
});
