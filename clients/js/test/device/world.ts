import { SteadyClock } from "../../src/device/clock.js";
import { Device, type DeviceOptions } from "../../src/device/index.js";
import type { Channel, Happening, Host, Shelf } from "../../src/device/host.js";
import { Gateway } from "./gateway.js";
import { Locks } from "./locks.js";

/** A time at which something happens, unless it was cancelled. */
interface Timer {
  readonly at: number;
  readonly due: () => void;
}

/**
 * A machine with a browser and a gateway somewhere else, in virtual time: nothing
 * happens but in {@link World.pass} and {@link World.sleep}.
 */
export class World {
  /** Milliseconds that have passed, and those of them in which the machine was awake. */
  time = 0;
  awake = 0;
  /** By how much the wall clock of the machine is wrong. */
  skew = 0;
  readonly gateway = new Gateway(this);
  readonly locks = new Locks();
  readonly storage = new Map<string, string>();
  readonly tabs: Tab[] = [];
  #timers: Timer[] = [];
  #names = 0;

  /** A name nobody has, the same in every run. */
  name(): string {
    return `name${++this.#names}`;
  }

  /** A random number, the same in every run with the same seed. */
  readonly random: () => number;

  constructor(seed = 1) {
    this.random = mulberry(seed);
  }

  after(ms: number, due: () => void): () => void {
    const timer = { at: this.awake + Math.max(ms, 0), due };
    this.#timers.push(timer);
    return () => (this.#timers = this.#timers.filter((t) => t !== timer));
  }

  /** Lets time pass. */
  async pass(ms: number): Promise<void> {
    const until = this.awake + ms;
    for (;;) {
      await new Promise(setImmediate); // whatever can happen at once does
      const next = this.#timers.reduce<Timer | undefined>((a, b) => (a && a.at <= b.at ? a : b), undefined);
      if (!next || next.at > until) break;
      this.#timers = this.#timers.filter((t) => t !== next);
      this.#forward(next.at - this.awake);
      next.due();
    }
    this.#forward(until - this.awake);
  }

  #forward(ms: number): void {
    this.awake += ms;
    this.time += ms;
  }

  /** Closes the lid for a while: no timer runs, and none comes nearer. */
  async sleep(ms: number): Promise<void> {
    this.time += ms;
    await this.pass(0);
  }

  /** Opens a page in a new tab. */
  async open(options: Partial<DeviceOptions> = {}, host: Partial<Host> = {}): Promise<Tab> {
    const tab = new Tab(this, options, host);
    this.tabs.push(tab);
    await this.pass(500);
    return tab;
  }
}

/** A page in a tab, which is a host for its device. */
export class Tab {
  readonly device: Device;
  visible = true;
  connected = true;
  beacons: string[] = [];
  readonly #world: World;
  readonly #listeners = new Set<(what: Happening) => void>();
  readonly channels = new Map<string, (message: unknown) => void>();
  readonly watches = new Map<string, () => void>();
  #sockets: WebSocket[] = [];
  /** What waits for a frozen page. */
  #frozen: (() => void)[] | undefined;

  constructor(world: World, options: Partial<DeviceOptions>, host: Partial<Host>) {
    this.#world = world;
    this.device = Device.startOn({ ...this.#host(), ...host }, { url: "https://gateway.test/", user: "ann", token: "ann", ...options });
  }

  #host(): Host {
    const world = this.#world;
    const clock = new SteadyClock(() => world.time + world.skew, () => world.awake);
    return {
      now: () => clock.now(),
      wall: () => world.time + world.skew,
      after: (ms, due) => world.after(ms, () => this.deliver(due)),
      random: () => world.random(),
      name: () => world.name(),
      socket: (url) => {
        const socket = world.gateway.socket(url, (event) => this.deliver(event));
        this.#sockets.push(socket);
        return socket;
      },
      fetch: (url, init) => world.gateway.fetch(String(url), init ?? {}),
      beacon: (url, body) => {
        this.beacons.push(body);
        void world.gateway.fetch(url, { body });
        return true;
      },
      shelf: this.#shelf(),
      locks: world.locks.of(this),
      channel: (name) => this.#channel(name),
      shown: () => this.visible,
      online: () => this.connected,
      listen: (listener) => {
        this.#listeners.add(listener);
        return () => this.#listeners.delete(listener);
      },
    };
  }

  #shelf(): Shelf {
    const { storage, tabs } = this.#world;
    const told = (key: string) => tabs.filter((t) => t !== this).forEach((t) => t.deliver(() => t.watches.get(key)?.()));
    return {
      get: (key) => storage.get(key),
      set: (key, value) => void (storage.set(key, value), told(key)),
      remove: (key) => void (storage.delete(key), told(key)),
      watch: (key, changed) => {
        this.watches.set(key, changed);
        return () => {
          if (this.watches.get(key) === changed) this.watches.delete(key);
        };
      },
    };
  }

  #channel(name: string): Channel {
    return {
      say: (message) => {
        const text = JSON.stringify(message);
        for (const tab of this.#world.tabs) {
          if (tab !== this) this.#world.after(1, () => tab.deliver(() => tab.channels.get(name)?.(JSON.parse(text))));
        }
      },
      hear: (listener) => this.channels.set(name, listener),
      close: () => this.channels.delete(name),
    };
  }

  /** What comes to a page comes when it runs. */
  deliver(event: () => void): void {
    if (this.#frozen) this.#frozen.push(event);
    else event();
  }

  async happen(what: Happening): Promise<void> {
    for (const listener of this.#listeners) listener(what);
    await this.#world.pass(0);
  }

  async show(): Promise<void> {
    this.visible = true;
    await this.happen("shown");
  }

  async hide(): Promise<void> {
    this.visible = false;
    await this.happen("hidden");
  }

  /** The browser stops the page and closes its sockets; some do neither say so nor close. */
  async freeze(silently = false): Promise<void> {
    if (!silently) {
      await this.happen("frozen");
      this.#hangUp();
    }
    this.#frozen = [];
  }

  #hangUp(): void {
    for (const socket of this.#sockets.splice(0)) socket.close();
  }

  async thaw(): Promise<void> {
    const waiting = this.#frozen ?? [];
    this.#frozen = undefined;
    await this.happen("woken");
    for (const event of waiting) event();
    await this.#world.pass(0);
  }

  /** The tab is closed, or the browser dies if it does not come to say so. */
  async leave(silently = false): Promise<void> {
    if (!silently) await this.happen("left");
    this.#world.tabs.splice(this.#world.tabs.indexOf(this), 1);
    this.#hangUp();
    this.#world.locks.bury(this);
    this.#frozen = [];
  }
}

/** A small generator of random numbers that are the same in every run (Mulberry32). */
function mulberry(seed: number): () => number {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}
