import { spawn, type ChildProcessWithoutNullStreams } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

// `npm run build:server` puts it there.
const binary = fileURLToPath(new URL("../testserver", import.meta.url));

/** Where a fabric listens. */
interface Addresses {
  readonly nats: string;
  readonly websocket: string;
  /** Of pages, and of the gateway. */
  readonly page: string;
}

/** Who one is to the server, in both forms. */
export interface Credential {
  readonly parts: { readonly jwt: string; readonly seed: string; readonly inbox_prefix: string };
  readonly file: string;
}

/** A whole fabric in a process of its own; testserver/main.go lists its commands. */
export class Fabric {
  readonly addresses: Addresses;
  readonly #process: ChildProcessWithoutNullStreams;
  readonly #lines: AsyncIterator<string>;
  #last: Promise<unknown> = Promise.resolve();

  private constructor(process: ChildProcessWithoutNullStreams, lines: AsyncIterator<string>, addresses: Addresses) {
    this.#process = process;
    this.#lines = lines;
    this.addresses = addresses;
  }

  static async start(...flags: string[]): Promise<Fabric> {
    const process = spawn(binary, flags);
    process.stderr.on("data", (data: Buffer) => console.error(data.toString()));
    const lines = createInterface(process.stdout)[Symbol.asyncIterator]();
    return new Fabric(process, lines, (await nextLine(lines)) as Addresses);
  }

  /** Carries out a command, such as `do("connect", "ann", "phone")`. */
  async do(...words: string[]): Promise<void> {
    await this.#ask(words);
  }

  /** Mints a credential. */
  async token(role: string, id: string, ttl = "1h"): Promise<Credential> {
    return (await this.#ask(["token", ttl, role, id])) as Credential;
  }

  /** Mints a token for the gateway. */
  async bearer(user: string, ttl = "1h"): Promise<string> {
    return (await this.#ask(["bearer", ttl, user])) as string;
  }

  /** How often the gateway was asked for an operation. */
  async count(op: string): Promise<number> {
    return (await this.#ask(["count", op])) as number;
  }

  #ask(words: readonly string[]): Promise<unknown> {
    const mine = this.#last.then(async () => {
      this.#process.stdin.write(words.map(encodeURIComponent).join(" ") + "\n");
      const answer = (await nextLine(this.#lines)) as { ok?: unknown; error?: string };
      if (answer.error !== undefined) throw new Error(`${words.join(" ")}: ${answer.error}`);
      return answer.ok;
    });
    this.#last = mine.catch(() => {});
    return mine;
  }

  async stop(): Promise<void> {
    const ended = new Promise((resolve) => this.#process.once("exit", resolve));
    this.#process.stdin.end();
    await ended;
  }
}

async function nextLine(lines: AsyncIterator<string>): Promise<unknown> {
  const { value, done } = await lines.next();
  if (done) throw new Error("the test server has ended");
  return JSON.parse(value as string);
}
