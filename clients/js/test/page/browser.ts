import { spawn, type ChildProcess } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { chromium, type BrowserContext } from "playwright-core";

/**
 * Chromium as people have it, where only one tab is shown and the others are hidden and
 * slowed down; Playwright's own shows all. Its pages share one profile.
 */
export class Window {
  readonly context: BrowserContext;
  readonly #process: ChildProcess;
  readonly #profile: string;

  private constructor(context: BrowserContext, process: ChildProcess, profile: string) {
    this.context = context;
    this.#process = process;
    this.#profile = profile;
  }

  static async open(...flags: string[]): Promise<Window> {
    const profile = mkdtempSync(join(tmpdir(), "rollcall-chromium-"));
    const process = spawn("/usr/bin/chromium", [
      ...["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--remote-debugging-port=0"],
      `--user-data-dir=${profile}`,
      ...flags,
      "about:blank",
    ]);
    for await (const line of createInterface(process.stderr)) {
      const [, address] = /DevTools listening on (ws:\S+)/.exec(line) ?? [];
      if (!address) continue;
      process.stderr.resume();
      const browser = await chromium.connectOverCDP(address, { noDefaults: true });
      return new Window(browser.contexts()[0]!, process, profile);
    }
    throw new Error("chromium has ended");
  }

  async close(): Promise<void> {
    const ended = new Promise((resolve) => this.#process.once("exit", resolve));
    await (await this.context.browser()!.newBrowserCDPSession()).send("Browser.close");
    await ended;
    rmSync(this.#profile, { recursive: true, force: true, maxRetries: 10 });
  }
}
