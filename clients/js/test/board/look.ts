import assert from "node:assert/strict";
import { mkdir, readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import type { Browser, BrowserContext, BrowserContextOptions, Page } from "playwright-core";

/** Where the test leaves what it saw. */
export const screenshots = process.env["ROLLCALL_SCREENSHOTS"] ?? "dist/screenshots";

export async function shoot(page: Page, name: string): Promise<void> {
  await mkdir(screenshots, { recursive: true });
  await page.screenshot({ path: join(screenshots, `${name}.png`) });
}

/** A user with a browser of its own, signed in on the board. */
export class User {
  readonly id: string;
  readonly page: Page;
  readonly #context: BrowserContext;

  private constructor(id: string, page: Page, context: BrowserContext) {
    this.id = id;
    this.page = page;
    this.#context = context;
  }

  static async signIn(browser: Browser, url: string, id: string, options: BrowserContextOptions = {}): Promise<User> {
    const context = await browser.newContext({ viewport: { width: 1200, height: 760 }, locale: "en-GB", ...options });
    const page = await context.newPage();
    page.setDefaultTimeout(30_000);
    page.on("pageerror", (err) => assert.fail(`${id}: ${err.message}`));
    page.on("console", (message) => assert.notEqual(message.type(), "error", `${id}: ${message.text()}`));
    await page.goto(url);
    await page.getByLabel("Sign in as").fill(id);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.locator('.people[data-ready="true"]').waitFor();
    return new User(id, page, context);
  }

  /** The row of somebody in the list. */
  row(id: string, mood = "") {
    return this.page.locator(`.row[data-id="${id}"]${mood && `[data-mood="${mood}"]`}:not([hidden])`);
  }

  async open(view: "People" | "Fabric" | "Online time"): Promise<void> {
    await this.page.getByRole("navigation").getByRole("link", { name: view }).click();
  }

  close(): Promise<void> {
    return this.#context.close();
  }
}

let axe: Promise<string> | undefined;

/** Nothing on the page may keep people with assistive technology out. */
export async function accessible(page: Page, what: string): Promise<void> {
  axe ??= readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
  await page.evaluate(await axe); // by the debugger, which no policy of the page keeps out
  const violations = await page.evaluate(async () => {
    const { axe } = globalThis as unknown as { axe: { run(): Promise<{ violations: { id: string; help: string; nodes: { html: string; failureSummary: string }[] }[] }> } };
    return (await axe.run()).violations.map(({ id, help, nodes }) => `${id}: ${help}\n${nodes.map((n) => `  ${n.html}\n  ${n.failureSummary}`).join("\n")}`);
  });
  assert.deepEqual(violations, [], what);
}

/** A page must not be wider than the screen. */
export async function fits(page: Page, what: string): Promise<void> {
  const [content, screen] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth] as const);
  assert.ok(content <= screen, `${what}: ${content} px of ${screen}`);
}
