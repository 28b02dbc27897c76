import { Client, MAX_TARGETS, parseToken, type Change, type Policy } from "../src/index.js";
import { Device } from "../src/device/index.js";
import type { Api, Config, Grant, People } from "./api.js";
import { Roster } from "./roster.js";

/** How long before its end a grant is renewed. */
const AHEAD = 60_000;

/** The signed-in user: a viewer of everybody it watches and, where there is a gateway, a device. */
export class Me {
  readonly user: string;
  readonly client: Client;
  readonly device: Device | undefined;
  readonly roster: Roster;
  /** Whom the user blocks, and what it says of itself. */
  policy: Policy | undefined;
  /** Who is watched by name, whether there or not. */
  readonly watched: Set<string>;
  readonly #here = new Set<string>(); // who is online, as operators are told
  readonly #ended = new AbortController();
  readonly #listeners = new Set<(change: Change) => void>();

  private constructor(client: Client, device: Device | undefined, user: string) {
    this.client = client;
    this.device = device;
    this.user = user;
    this.watched = new Set(JSON.parse(localStorage.getItem(this.#key) ?? "[]") as string[]);
    this.roster = new Roster((id) => this.watched.has(id));
    client.on((change) => {
      this.roster.apply(change, Date.now());
      for (const listener of this.#listeners) listener(change);
    });
  }

  /** Connects as whom the grant says; `again` gets the next grant, where there is one. */
  static async connect(config: Config, grant: Grant, again?: () => Promise<Grant>): Promise<Me> {
    const held: Held = { grant };
    const client = await Client.connect({
      viewer: grant.user, prefix: config.prefix, servers: here(config.websocket), token: () => held.grant.viewer,
    });
    const device = grant.gateway
      ? Device.start({ url: new URL(config.gateway, location.href).href, user: grant.user, token: () => held.grant.gateway ?? "", client: { type: "board" } })
      : undefined;
    const me = new Me(client, device, grant.user);
    if (again) me.#renew(held, again);
    try {
      await client.subscribe([me.user, ...me.watched].slice(0, MAX_TARGETS));
      me.policy = await client.policy.get();
      return me;
    } catch (e) {
      await me.close();
      throw e;
    }
  }

  /** Ends with what the page has of the user. */
  get ended(): AbortSignal {
    return this.#ended.signal;
  }

  get #key(): string {
    return `rollcall.watched.${this.user}`;
  }

  on(listener: (change: Change) => void): void {
    this.#listeners.add(listener);
  }

  #renew(held: Held, again: () => Promise<Grant>): void {
    if (this.ended.aborted) return;
    const left = new Date(held.grant.expires).getTime() - Date.now();
    const timer = setTimeout(() => {
      again().then((grant) => (held.grant = grant), () => {}).finally(() => this.#renew(held, again));
    }, Math.max(left - AHEAD, 5_000));
    this.ended.addEventListener("abort", () => clearTimeout(timer));
  }

  /** Watches whom operators are told to be online. What is seen of them is up to them. */
  async follow({ came, left }: People): Promise<void> {
    for (const id of left) this.#here.delete(id);
    for (const id of came) this.#here.add(id);
    const room = Math.max(MAX_TARGETS - this.watched.size - 1 - (this.#here.size - came.length), 0);
    const added = came.filter((id) => id !== this.user && !this.watched.has(id)).slice(0, room);
    if (added.length > 0) await this.client.subscribe(added, { signal: this.ended });
  }

  /** Everybody is told anew of who is online: the stream began again. */
  async restart(people: People): Promise<void> {
    const gone = [...this.#here].filter((id) => !people.came.includes(id));
    this.#here.clear();
    await this.#letGo(gone);
    await this.follow(people);
  }

  /** Stops watching those who left a while ago. */
  async settle(): Promise<boolean> {
    if (!this.roster.settle(Date.now())) return false;
    const gone: string[] = [];
    for (const [id, { status }] of this.client.states) if (status === "offline" && !this.#here.has(id)) gone.push(id);
    await this.#letGo(gone);
    return true;
  }

  async #letGo(ids: readonly string[]): Promise<void> {
    const gone = ids.filter((id) => id !== this.user && !this.watched.has(id));
    for (const id of gone) this.roster.drop(id);
    if (gone.length > 0) await this.client.unsubscribe(gone, { signal: this.ended });
  }

  /** Watches somebody by name from now on, in this browser. */
  async watch(id: string): Promise<void> {
    await this.client.subscribe([id]); // refused before it is kept
    this.watched.add(id);
    this.#keep();
  }

  async unwatch(id: string): Promise<void> {
    this.watched.delete(id);
    this.#keep();
    if (!this.#here.has(id)) await this.#letGo([id]);
  }

  #keep(): void {
    localStorage.setItem(this.#key, JSON.stringify([...this.watched]));
    this.roster.review();
  }

  async close(): Promise<void> {
    this.#ended.abort();
    await Promise.all([this.device?.close(), this.client.close()]);
  }
}

/** A grant that the next one takes the place of. */
interface Held {
  grant: Grant;
}

/** An address of a server that listens on every one of its machine's is that of the page. */
function here(address: string): string {
  const url = new URL(address);
  if (["0.0.0.0", "[::]"].includes(url.hostname)) url.hostname = location.hostname;
  return url.href;
}

/** Signs in in one of the ways that the board offers. */
export function signIn(api: Api, config: Config, user: string): Promise<Me> {
  const again = () => api.signIn(user);
  return again().then((grant) => Me.connect(config, grant, again));
}

export function signInAtApplication(api: Api, config: Config): Promise<Me> {
  const again = () => api.grantFrom(config.sign_in_url);
  return again().then((grant) => Me.connect(config, grant, again));
}

/** Signs in with a credentials file or what `rollcall token viewer --json` prints. */
export function signInWith(config: Config, pasted: string): Promise<Me> {
  return Me.connect(config, grantOf(pasted));
}

function grantOf(pasted: string): Grant {
  const text = pasted.trim();
  const part = (name: string) => new RegExp(`BEGIN ${name}-+\\s+([\\w.-]+)`).exec(text)?.[1] ?? "";
  const { jwt, seed } = text.startsWith("{")
    ? (JSON.parse(text) as { jwt: string; seed: string })
    : { jwt: part("NATS USER JWT"), seed: part("USER NKEY SEED") };
  const claims = jwt?.split(".")[1];
  if (!claims || !seed) throw new Error("that is neither a credentials file nor what `rollcall token viewer --json` prints");
  const { name, exp } = JSON.parse(atob(claims.replaceAll("-", "+").replaceAll("_", "/"))) as { name: string; exp?: number };
  return { user: parseToken(name), viewer: { jwt, seed }, expires: new Date((exp ?? 4e9) * 1000).toISOString() };
}
