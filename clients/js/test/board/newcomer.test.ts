import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { chromium, type Browser } from "playwright-core";
import { User, accessible, fits, shoot } from "./look.js";
import { Running, anywhere, directory, run } from "./rollcall.js";

const repository = fileURLToPath(new URL("../../../../..", import.meta.url));

/** Of the preset "tight": from a goodbye until offline is published. */
const DEBOUNCE = 20_000;

let clone: Awaited<ReturnType<typeof directory>>;
let data: Awaited<ReturnType<typeof directory>>;
let fabric: Running;
let url: string;
let browser: Browser;

before(async () => {
  [clone, data] = [await directory(), await directory()];
  await run("git", "clone", "--quiet", repository, clone.path);
  fabric = new Running(["go", "run", "./cmd/rollcall", "up", "--preset", "tight", "--idle-threshold", "3s", "--data", data.path, ...anywhere], clone.path);
  url = await fabric.says(/HTTP +(http:\S+)/);
  browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu"] });
}, { timeout: 300_000 });

after(async () => {
  await browser?.close();
  await fabric?.stop();
  await clone?.remove();
  await data?.remove();
});

test("a newcomer sees somebody come, turn idle and leave, and is blocked", async () => {
  const alice = await User.signIn(browser, url, "alice");
  let bob = await User.signIn(browser, url, "bob");
  await alice.row("bob").waitFor();

  // Bob's page is his device: whoever does nothing there for three seconds is idle.
  await bob.page.mouse.move(10, 10);
  await alice.row("bob", "active").waitFor();
  await alice.row("bob", "idle").waitFor();
  await bob.page.mouse.move(20, 20);
  await alice.row("bob", "active").waitFor();
  await shoot(alice.page, "newcomer-active");

  // What he says of himself is beside his name.
  await bob.page.locator("#me").click();
  await bob.page.getByLabel("I am").selectOption("away");
  await bob.page.getByLabel("and say").fill("lunch");
  await bob.page.getByRole("button", { name: "Set", exact: true }).click();
  await alice.row("bob", "away").getByText("lunch").waitFor();
  await bob.page.getByLabel("I am").selectOption("available");
  await bob.page.getByLabel("and say").fill("");
  await bob.page.getByRole("button", { name: "Set", exact: true }).click();

  // He leaves, and is shown so after the debounce: the keeper measures it.
  await bob.page.goto("about:blank");
  const left = Date.now();
  await alice.row("bob", "offline").waitFor();
  const seen = Date.now() - left;
  await shoot(alice.page, "newcomer-left");
  await alice.open("Fabric");
  const goodbyes = alice.page.locator(".detection tr", { hasText: "says goodbye" });
  await goodbyes.getByText("within").waitFor();
  await shoot(alice.page, "newcomer-fabric");
  const measured = /(\d+\.\d) s, once/.exec((await goodbyes.textContent()) ?? "");
  assert.ok(measured && Number(measured[1]) >= DEBOUNCE / 1000, `the keeper measured ${await goodbyes.textContent()}`);
  console.log(`offline was seen ${seen} ms after the goodbye; the keeper measured ${measured[1]} s`);
  await alice.open("People");
  await bob.close();

  // He is back, and alice does not want to be seen by him.
  bob = await User.signIn(browser, url, "bob");
  await bob.row("alice").waitFor();
  await alice.row("bob", "active").click();
  await alice.page.getByRole("button", { name: "Block", exact: true }).click();
  await bob.row("alice").waitFor({ state: "hidden" });
  await shoot(bob.page, "newcomer-blocked");
  await alice.page.getByRole("button", { name: "Unblock", exact: true }).click();
  await bob.row("alice").waitFor();
  await bob.close();
  await alice.close();
});

test("with the keyboard, in both themes, at the width of a phone", async () => {
  const dana = await User.signIn(browser, url, "dana");
  for (const [theme, options] of Object.entries({
    light: { colorScheme: "light" }, dark: { colorScheme: "dark" }, phone: { colorScheme: "light", viewport: { width: 360, height: 740 } },
  } as const)) {
    const carol = await User.signIn(browser, url, `carol-${theme}`, options);
    const { page } = carol;
    await carol.row("dana").waitFor();
    await fits(page, `${theme}: people`);
    await accessible(page, `${theme}: people`);
    await page.getByLabel("Search people").focus();
    await page.keyboard.type("DAN");
    await page.locator('.row[aria-setsize="1"]').waitFor();
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "dana" }).waitFor();
    assert.equal(await page.evaluate(() => document.activeElement?.classList.contains("person")), true, "what was opened has the focus");
    await page.locator(".timeline").waitFor();
    await fits(page, `${theme}: a person`);
    await accessible(page, `${theme}: a person`);
    await shoot(page, `person-${theme}`);
    await page.locator("#me").click();
    await accessible(page, `${theme}: oneself`);
    await page.keyboard.press("Escape");
    for (const view of ["Fabric", "Online time"] as const) {
      await carol.open(view);
      await page.locator(".tiles").first().waitFor();
      await fits(page, `${theme}: ${view}`);
      await accessible(page, `${theme}: ${view}`);
      await shoot(page, `${view.toLowerCase().replace(" ", "-")}-${theme}`);
    }
    await carol.close();
  }
  const { page } = dana;
  const before = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  await page.getByRole("button", { name: "Use the dark theme" }).click();
  assert.notEqual(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), before);
  await page.reload(); // the theme and the user stay
  await page.locator('.people[data-ready="true"]').waitFor();
  await page.getByRole("button", { name: "Use the light theme" }).waitFor();
  await page.locator("#me").click();
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByLabel("Sign in as").waitFor();
  await accessible(page, "the way in");
  await dana.close();
});
