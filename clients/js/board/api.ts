/** What the page can do where it is served; `internal/board` answers with it. */
export interface Config {
  readonly prefix: string;
  readonly websocket: string;
  readonly gateway: string;
  readonly development: boolean;
  readonly sign_in_url: string;
  readonly operator_token: boolean;
  readonly ledger: boolean;
}

/** What makes the page a user. */
export interface Grant {
  readonly user: string;
  readonly viewer: { readonly jwt: string; readonly seed: string };
  readonly gateway?: string; // a bearer token
  readonly expires: string;
}

export interface KeeperShard {
  readonly shard: number;
  readonly generation: number;
  readonly ready: boolean;
  readonly users: number;
  readonly online: number;
  readonly connections: number;
  readonly leases: number;
}

export interface Way {
  readonly way: string;
  readonly earliest_ms: number;
  readonly latest_ms: number;
  readonly count: number;
  readonly min_ms: number;
  readonly mean_ms: number;
  readonly max_ms: number;
  readonly early: number;
  readonly late: number;
}

export interface Keeper {
  readonly at: string;
  readonly since: string;
  readonly holder: string;
  readonly member?: string;
  readonly shards_total: number;
  readonly shards: readonly KeeperShard[];
  readonly counters: Readonly<Record<string, number>>;
  readonly ways: readonly Way[];
}

export interface Edge {
  readonly edge: string;
  readonly leases: number;
  readonly started: string;
  readonly oldest_ms: number;
  readonly newest_ms: number;
}

export interface Owner {
  readonly name: string;
  readonly generation: number;
  readonly since: string;
}

export interface Shard {
  readonly shard: number;
  readonly owners: Readonly<Record<string, Owner>>;
}

export interface Member {
  readonly id: string;
  readonly state: string;
  readonly reason: string;
  readonly seen: string;
  readonly load: number;
  readonly partitions: number;
  readonly drained?: boolean;
}

export interface Group {
  readonly bucket: string;
  readonly group: string;
  readonly at: string;
  readonly coordinator?: string;
  readonly generation: number;
  readonly members: readonly Member[];
  readonly partitions: readonly { readonly owner?: string }[];
}

export interface Today {
  readonly zone: string;
  readonly date: string;
  readonly measures: Readonly<Record<string, { readonly users: number; readonly seconds: number }>>;
}

export interface Figures {
  readonly at: string;
  readonly timing: { readonly renewal_ms: number; readonly lease_ttl_ms: number; readonly sweep_ms: number; readonly debounce_ms: number };
  readonly shards: readonly Shard[];
  readonly keepers: readonly Keeper[];
  readonly edges: readonly Edge[];
  readonly groups: readonly Group[];
  readonly ledger: { readonly as_of: string; readonly shards: readonly number[]; readonly online: number; readonly active: number; readonly today: readonly Today[] } | null;
  readonly missing: readonly string[];
}

export interface People {
  readonly came: readonly string[];
  readonly left: readonly string[];
  readonly online: number;
}

export type Measure = "connected" | "foreground" | "active";

export interface Span {
  readonly device: string;
  readonly measure: Measure;
  readonly from_ms: number;
  readonly to_ms: number;
}

export interface Days {
  readonly zone: string;
  readonly from: string;
  readonly to: string;
  readonly role: string;
  readonly days: Readonly<Record<string, Partial<Record<Measure, number>>>>;
  readonly spans?: readonly Span[];
}

/** A refusal of the board, with a code that stays. */
export class Refusal extends Error {
  constructor(readonly status: number, readonly code: string, message: string) {
    super(message);
  }
}

/** Asks the process that serves the page. */
export class Api {
  #token = "";
  #shown: (() => void)[] = [];

  /** Shows the operator's token from now on. */
  unlock(token: string): void {
    this.#token = token;
    for (const go of this.#shown.splice(0)) go();
  }

  /** Resolves when the next token is shown. */
  unlocked(): Promise<void> {
    return new Promise((resolve) => this.#shown.push(resolve));
  }

  config(): Promise<Config> {
    return this.#json("board/config");
  }

  signIn(user: string): Promise<Grant> {
    return this.#json("board/sign-in", {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ user }),
    });
  }

  /** Asks the application, which knows its user by its cookies. */
  async grantFrom(url: string): Promise<Grant> {
    const response = await fetch(url, { credentials: "include" });
    if (!response.ok) throw new Refusal(response.status, "sign_in", `you are not signed in at ${new URL(url, location.href).host}`);
    return (await response.json()) as Grant;
  }

  days(): Promise<Days> {
    return this.#json("board/days");
  }

  timeline(user: string, signal: AbortSignal): Promise<Days> {
    return this.#json(`board/timeline?user=${encodeURIComponent(user)}`, { signal });
  }

  async #json<T>(path: string, init: RequestInit = {}): Promise<T> {
    const response = await this.#fetch(path, init);
    return (await response.json()) as T;
  }

  async #fetch(path: string, init: RequestInit): Promise<Response> {
    const headers = new Headers(init.headers);
    if (this.#token) headers.set("Authorization", `Bearer ${this.#token}`);
    const response = await fetch(path, { ...init, headers });
    if (!response.ok) {
      const { error } = (await response.json().catch(() => ({}))) as { error?: { code: string; message: string } };
      throw new Refusal(response.status, error?.code ?? "failed", error?.message ?? response.statusText);
    }
    return response;
  }

  /**
   * Follows a stream of server-sent events, again whenever it ends, until the signal, or
   * until it is only for operators. An EventSource could not show the operator's token.
   */
  async follow(path: string, signal: AbortSignal, hear: (event: string, data: unknown) => void, trouble: (err: unknown) => void): Promise<void> {
    for (let pause = 500; !signal.aborted; pause = Math.min(2 * pause, 10_000)) {
      try {
        const response = await this.#fetch(path, { signal });
        for await (const { event, data } of events(response)) {
          pause = 500;
          hear(event, data);
        }
        throw new Error("the board has ended the stream");
      } catch (err) {
        if (signal.aborted) return;
        trouble(err);
        if (err instanceof Refusal && err.status === 401) return;
      }
      await new Promise((resolve) => setTimeout(resolve, pause * (0.5 + Math.random() / 2)));
    }
  }
}

async function* events(response: Response): AsyncIterableIterator<{ event: string; data: unknown }> {
  let rest = "";
  const decoder = new TextDecoder();
  for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) {
    rest += decoder.decode(chunk, { stream: true });
    const blocks = rest.split("\n\n");
    rest = blocks.pop() ?? "";
    for (const block of blocks) {
      const field = (name: string) => block.split("\n").find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2) ?? "";
      yield { event: field("event"), data: JSON.parse(field("data")) };
    }
  }
}
