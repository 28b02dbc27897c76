import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

/** A directory of the test's that goes with it. */
export async function directory(): Promise<{ readonly path: string; remove(): Promise<void> }> {
  const path = await mkdtemp(join(tmpdir(), "rollcall-"));
  return { path, remove: () => rm(path, { recursive: true, force: true }) };
}

/** Runs a command to its end. */
export async function run(command: string, ...args: string[]): Promise<void> {
  const [code] = (await once(spawn(command, args, { stdio: "inherit" }), "exit")) as [number | null];
  if (code !== 0) throw new Error(`${command} ${args.join(" ")} ended with ${String(code)}`);
}

/** A command of Rollcall's that runs until it is stopped. */
export class Running {
  readonly #process: ChildProcess;
  #said = "";
  #heard: () => void = () => {};
  #ended = false;

  /** Starts it in a group of its own, since `go run` has a child. */
  constructor(command: readonly string[], cwd: string) {
    const [name, ...args] = command;
    this.#process = spawn(name!, args, { cwd, detached: true, stdio: ["ignore", "pipe", "pipe"] });
    for (const stream of [this.#process.stdout!, this.#process.stderr!]) {
      createInterface(stream).on("line", (line) => {
        this.#said += `${line}\n`;
        this.#heard();
      });
    }
    this.#process.once("exit", () => {
      this.#ended = true;
      this.#heard();
    });
  }

  /** Waits until it has said something, and returns the first group of what matched. */
  async says(pattern: RegExp): Promise<string> {
    for (;;) {
      const match = pattern.exec(this.#said);
      if (match) return match[1] ?? match[0];
      if (this.#ended) throw new Error(`it has ended and said:\n${this.#said}`);
      await new Promise<void>((resolve) => (this.#heard = resolve));
    }
  }

  /** Interrupts it, as Ctrl-C does. */
  async stop(): Promise<void> {
    if (this.#ended) return;
    const ended = once(this.#process, "exit");
    process.kill(-this.#process.pid!, "SIGINT");
    await ended;
  }
}

/** The flags of `rollcall up` that let several run beside each other. */
export const anywhere = ["--listen", "127.0.0.1:0", "--websocket", "127.0.0.1:0", "--http", "127.0.0.1:0"];
