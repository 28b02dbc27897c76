import { browser } from "./browser.js";
import { Alone, election, type Election, type Term } from "./election.js";
import type { DeviceError } from "./errors.js";
import type { Happening, Host } from "./host.js";
import { checkActivity, settle, type DeviceOptions, type DeviceSettings } from "./options.js";
import { Registrar, type Subject } from "./registrar.js";
import { alike, type DeviceStatus, type Phase } from "./status.js";
import { Tabs, type Lead, type Member } from "./tabs.js";
import { Watchdog } from "./watchdog.js";

/** Where the browser keeps the id of the device. */
const DEVICE_KEY = "rollcall:device";

export type StatusListener = (status: DeviceStatus) => void;

/**
 * Makes a browser a device of its user: it keeps a session at a gateway, with
 * heartbeats, and tells whether somebody looks at the page and uses it. The tabs of a
 * browser are one device; one of them leads and speaks for all, and when it ends, the
 * next one goes on.
 *
 * It never gives up by itself. It comes back after every outage, until it is closed or
 * the same device is connected elsewhere.
 */
export class Device {
  readonly #host: Host;
  readonly #settings: DeviceSettings;
  #shared: boolean;
  readonly #tabs: Tabs;
  #election: Election;
  readonly #registrar: Registrar;
  readonly #watchdog: Watchdog;
  readonly #listeners = new Set<StatusListener>();
  readonly #unlisten: () => void;
  readonly #ended: Promise<void>;
  #status: DeviceStatus = { phase: "connecting", foreground: false, active: false, leading: false };
  #session: string;
  #deviceId: string | undefined;
  #activity: string | undefined;
  #usedAt: number | undefined;
  #term: Term | undefined;
  /** Aborted when this tab shall not go on as it does. */
  #turn = new AbortController();
  /** The browser has stopped the page, or it was left. */
  #stopped = false;
  #steal = false;
  #wake = (): void => {};

  private constructor(settings: DeviceSettings, host: Host) {
    this.#host = host;
    this.#settings = settings;
    // JSON, so that no user can be taken for another one and a device.
    const name = `rollcall:1:${JSON.stringify([settings.address.http(""), settings.user, settings.device ?? null])}`;
    const common = settings.share ? election(host, name) : undefined;
    this.#shared = common !== undefined;
    this.#election = common ?? new Alone();
    this.#tabs = new Tabs(host, common && host.channel?.(name), this.#member());
    this.#session = host.name();
    this.#activity = settings.activity;
    this.#watchdog = new Watchdog(host, () => this.#report(true), () => this.#takeLead());
    this.#registrar = new Registrar(host, settings, this.#subject());
    this.#unlisten = host.listen((what) => this.#happened(what));
    if (host.shown()) this.#usedAt = host.now(); // who opens a page uses it
    this.#report(true);
    this.#ended = this.#run();
  }

  /** Begins; fails only for options that cannot be. */
  static start(options: DeviceOptions): Device {
    return Device.startOn(browser(), options);
  }

  /** @internal For tests, which have hosts of their own. */
  static startOn(host: Host, options: DeviceOptions): Device {
    return new Device(settle(options), host);
  }

  /** How the device is doing; another object whenever something of it is different. */
  get status(): DeviceStatus {
    return this.#status;
  }

  /** What the user does, as the application calls it. Of several tabs the one used last tells. */
  get activity(): string | undefined {
    return this.#activity;
  }

  set activity(label: string | undefined) {
    checkActivity(label);
    this.#activity = label;
    this.#report(false);
  }

  /** Calls the listener with every change of the status, until the function that it returns is called. */
  on(listener: StatusListener): () => void {
    const mine: StatusListener = (status) => listener(status); // so that the same may listen twice
    this.#listeners.add(mine);
    return () => this.#listeners.delete(mine);
  }

  /** Takes the device back from where else it is connected; after a refusal tries again at once. */
  open(): void {
    this.#tabs.open();
    this.#reopen();
  }

  /**
   * Ends this tab's part. With the last tab the device says goodbye; to log out ends
   * all tabs. It resolves when the gateway has heard it, or does not answer.
   */
  async close({ logout = false }: { readonly logout?: boolean } = {}): Promise<void> {
    if (this.#closed) return this.#ended;
    if (logout) this.#tabs.logout();
    await this.#close(logout);
  }

  async #close(logout: boolean): Promise<void> {
    const last = this.#status.leading && (logout || !this.#tabs.others);
    const said = last ? this.#registrar.leave(logout ? "logout" : "goodbye") : undefined;
    this.#set({ phase: "closed", foreground: false, active: false, leading: false });
    this.#unlisten();
    this.#watchdog.stop();
    this.#tabs.bye();
    this.#stop("closed");
    await said;
    await this.#ended;
    this.#registrar.drop();
    this.#tabs.close();
  }

  get #closed(): boolean {
    return this.#status.phase === "closed";
  }

  /** Campaigns and leads, again and again, until the end. */
  async #run(): Promise<void> {
    while (!this.#closed) {
      if (this.#stopped) await new Promise<void>((resolve) => (this.#wake = resolve));
      else await this.#serve();
    }
  }

  async #serve(): Promise<void> {
    this.#turn = new AbortController();
    const { signal } = this.#turn;
    const steal = this.#steal;
    this.#steal = false;
    try {
      this.#term = await this.#election.campaign(signal, steal);
    } catch (err) {
      const stolen = (err as Partial<DOMException>).name === "AbortError";
      if (!signal.aborted && !stolen) this.#goAlone(err);
      return;
    }
    if (!signal.aborted) await this.#lead(this.#term, signal);
    this.#term.resign();
    this.#term = undefined;
  }

  /** Where the browser lets tabs not elect one, each is a device. */
  #goAlone(err: unknown): void {
    this.#settings.logger.warn("rollcall: device: tabs cannot share one here:", err);
    this.#election = new Alone();
    this.#shared = false;
  }

  async #lead({ lost }: Term, signal: AbortSignal): Promise<void> {
    this.#watchdog.stop();
    this.#set({ ...this.#status, leading: true });
    this.#announce(true);
    await this.#registrar.run(AbortSignal.any([signal, lost]));
    if (this.#closed) return;
    this.#set({ ...this.#status, leading: false });
    if (signal.aborted) return;
    this.#registrar.drop(); // the session is another tab's
    this.#report(true);
  }

  /** Ends what this tab does, and lets go of the lead at once: the page may not run any longer. */
  #stop(why: string): void {
    this.#term?.resign();
    this.#turn.abort(new Error(why));
    this.#wake();
  }

  #takeLead(): void {
    if (this.#status.leading || this.#stopped) return;
    this.#settings.logger.debug("rollcall: device: the leading tab does not answer");
    this.#steal = true;
    this.#stop("stealing the lead");
  }

  #happened(what: Happening): void {
    switch (what) {
      case "shown":
      case "input":
        this.#usedAt = this.#host.now();
        this.#report(true);
        if (what === "shown") this.#registrar.hurry();
        break;
      case "hidden":
        this.#report(true);
        break;
      case "frozen":
        if (this.#tabs.others) this.#registrar.drop();
        else this.#registrar.park();
        this.#halt();
        break;
      case "left":
        this.#leave();
        this.#halt();
        break;
      case "woken":
        this.#resume();
        break;
      case "online":
        this.#registrar.beatNow();
        this.#registrar.hurry();
        break;
      case "offline": // the line says so itself
    }
  }

  /** The page may be gone in a moment. */
  #leave(): void {
    if (!this.#status.leading || this.#tabs.others) {
      this.#registrar.drop();
      return;
    }
    this.#registrar.leaveAtOnce();
    this.#session = this.#host.name();
  }

  #halt(): void {
    if (this.#stopped) return;
    this.#stopped = true;
    this.#watchdog.stop();
    this.#tabs.bye();
    this.#stop("the page is stopped");
  }

  #resume(): void {
    this.#registrar.beatNow();
    if (!this.#stopped) return;
    this.#stopped = false;
    if (this.#host.shown()) this.#usedAt = this.#host.now();
    this.#report(true);
    this.#wake();
  }

  /** Tells the state of this tab, as a question to the one that leads. */
  #report(ask: boolean): void {
    if (this.#stopped || this.#closed) return;
    const unused = this.#usedAt === undefined ? undefined : this.#host.now() - this.#usedAt;
    this.#tabs.report(
      {
        foreground: this.#host.shown(),
        ...(unused !== undefined && { unused }),
        ...(this.#activity !== undefined && { activity: this.#activity }),
      },
      ask,
    );
    this.#registrar.ring();
    if (ask && this.#shared && !this.#status.leading) this.#watchdog.asked();
  }

  /** Tells the other tabs who leads. */
  #announce(call: boolean): void {
    if (!this.#status.leading) return;
    const { leading: _, ...status } = this.#status;
    this.#tabs.lead({ status, session: this.#session }, call);
  }

  #member(): Member {
    return {
      changed: () => this.#registrar.ring(),
      asked: () => this.#announce(false),
      led: (lead) => this.#led(lead),
      called: () => this.#report(false),
      left: () => this.#report(true), // the next one may be stopped
      logout: () => void (this.#closed || this.#close(true)),
      open: () => this.#reopen(),
    };
  }

  #led({ status, session }: Lead): void {
    if (this.#status.leading || this.#closed) return; // there is one word too many until one of both is told
    this.#session = session;
    this.#registrar.drop();
    this.#set({ ...status, leading: false });
    if (!this.#stopped) this.#watchdog.heard();
  }

  #reopen(): void {
    if (!this.#status.leading) return;
    if (this.#status.phase === "superseded") this.#moved("connecting");
    this.#registrar.hurry();
  }

  #subject(): Subject {
    const device = this;
    const { attention } = this.#tabs;
    return {
      state: (now, threshold) => attention.state(now, threshold),
      changesAt: (now, threshold) => attention.changesAt(now, threshold),
      deviceId: () => this.#identify(),
      get session() {
        return device.#session;
      },
      get phase() {
        return device.#status.phase;
      },
      moved: (phase, error) => this.#moved(phase, error),
      beat: () => {
        this.#tabs.round();
        this.#announce(true);
      },
    };
  }

  /** Only the leading tab makes the id, so that tabs do not make two. */
  #identify(): string {
    const shelf = this.#shared ? this.#host.shelf : undefined;
    this.#deviceId ??= this.#settings.device ?? shelf?.get(DEVICE_KEY) ?? this.#host.name();
    if (this.#settings.device === undefined) shelf?.set(DEVICE_KEY, this.#deviceId);
    return this.#deviceId;
  }

  #moved(phase: Phase, error?: DeviceError): void {
    if (this.#closed) return;
    const { told, line } = this.#registrar.current ?? {};
    this.#set({
      phase,
      leading: true,
      ...(told ?? { foreground: false, active: false }),
      ...(this.#deviceId !== undefined && { device: this.#deviceId }),
      ...(line && { transport: line.transport }),
      ...(error && { error: { code: error.code, message: error.message } }),
    });
  }

  #set(status: DeviceStatus): void {
    if (alike(status, this.#status)) return;
    this.#status = Object.freeze(status);
    if (!this.#closed) this.#announce(false);
    for (const listener of this.#listeners) {
      try {
        listener(status);
      } catch (err) {
        queueMicrotask(() => {
          throw err; // the application's, and nothing to stop for
        });
      }
    }
  }
}
