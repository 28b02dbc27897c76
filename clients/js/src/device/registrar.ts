import { Alarm, unlessAborted } from "../time.js";
import { Dialer } from "./dialer.js";
import { DeviceError, deviceError } from "./errors.js";
import type { Host } from "./host.js";
import type { Line } from "./line.js";
import type { DeviceSettings } from "./options.js";
import { PATH, answer, opened, paths, type DeviceState, type OpenRequest } from "./protocol.js";
import { passing, recovery } from "./recovery.js";
import { Registration } from "./registration.js";
import type { Phase } from "./status.js";

/** How long, in ms, to sleep at most, to notice that the machine slept longer. */
const NAP = 5_000;

/** How long, in ms, a change for the worse must last, so that going from tab to tab is none. */
const SETTLED = 300;

/** How long, in ms, to wait for a network that the browser says is missing. */
const OFFLINE = 30_000;

/** Over how long, in ms, those come back who come back because of an event. */
const SPREAD = 1_000;

/** How long, in ms, a goodbye may take. */
const GOODBYE = 2_000;

/** What a registrar asks of the device, and tells it. */
export interface Subject {
  /** What the device says of itself now, and when that changes if nothing happens. */
  state(now: number, idleThreshold: number): DeviceState;
  changesAt(now: number, idleThreshold: number): number;
  deviceId(): string;
  /** The name of the session, the same until goodbye. */
  readonly session: string;
  readonly phase: Phase;
  /** The phase, or what was told, may be another now. */
  moved(phase: Phase, error?: DeviceError): void;
  /** A heartbeat was answered. */
  beat(): void;
}

/** Until a gateway says better. */
const IDLE_THRESHOLD = 300_000;

/** Keeps one session at the gateway: registers, sends heartbeats and states, and comes back. */
export class Registrar {
  readonly #host: Host;
  readonly #settings: DeviceSettings;
  readonly #subject: Subject;
  readonly #alarm: Alarm;
  readonly #dialer: Dialer;
  #current: Registration | undefined;
  /** Failures since the gateway last took a heartbeat or a state. */
  #failures = 0;
  /** Since when the state is worse than what the gateway was told. */
  #worseSince: number | undefined;
  #retryAt = 0;

  constructor(host: Host, settings: DeviceSettings, subject: Subject) {
    this.#host = host;
    this.#settings = settings;
    this.#subject = subject;
    this.#alarm = new Alarm(host.after);
    this.#dialer = new Dialer(host, settings, () => this.#alarm.ring());
  }

  get current(): Registration | undefined {
    return this.#current;
  }

  get idleThreshold(): number {
    return this.#current?.idleThreshold ?? IDLE_THRESHOLD;
  }

  /** Something may have to be told. */
  ring(): void {
    this.#alarm.ring();
  }

  /** Tries soon what it waits to try: somebody came back, or a network. */
  hurry(): void {
    this.#retryAt = Math.min(this.#retryAt, this.#host.now() + this.#host.random() * SPREAD);
    this.#alarm.ring();
  }

  /** Sends a heartbeat, whether or not it is time: it shows what the session is worth. */
  beatNow(): void {
    if (this.#current) this.#current.beatAt = this.#host.now();
    this.#alarm.ring();
  }

  /** Works until the signal ends it, and leaves the session as it is. */
  async run(signal: AbortSignal): Promise<void> {
    const ring = () => this.#alarm.ring();
    signal.addEventListener("abort", ring);
    while (!signal.aborted) {
      try {
        if (this.#subject.phase === "superseded") await this.#alarm.sleep(NAP);
        else await this.#work(signal);
      } catch (err) {
        if (!signal.aborted) await this.#recover(deviceError(err), signal);
      }
    }
    signal.removeEventListener("abort", ring);
  }

  async #work(signal: AbortSignal): Promise<void> {
    const r = this.#current;
    if (!r) return this.#register(await this.#dialer.connect(signal), signal);
    const now = this.#host.now();
    if (r.line.fault) throw r.line.fault;
    if (r.dead(now)) throw new DeviceError("DEAD", "nothing was said for longer than the gateway waits");
    const better = this.#dialer.take();
    if (better) await this.#register(better, signal); // the newer session of a device takes the place of the older
    else if (now >= r.beatAt) await this.#say("heartbeat", r, signal);
    else if (now >= this.#tellAt(r, now)) await this.#say("state", r, signal);
    else {
      this.#dialer.improve(r.line);
      const next = Math.min(r.beatAt, this.#tellAt(r, now), this.#subject.changesAt(now, r.idleThreshold));
      await this.#alarm.sleep(Math.min(next - now, NAP));
    }
  }

  /** When the gateway should hear of the state; Infinity if it knows. */
  #tellAt({ told, idleThreshold }: Registration, now: number): number {
    const state = this.#subject.state(now, idleThreshold);
    if (same(state, told)) this.#worseSince = undefined;
    else if (rank(state) < rank(told)) return (this.#worseSince ??= now) + SETTLED;
    else return now;
    return Infinity;
  }

  async #register(line: Line, signal: AbortSignal): Promise<void> {
    const saidAt = this.#host.now();
    const state = this.#subject.state(saidAt, this.idleThreshold);
    try {
      const o = opened(await unlessAborted(line.ask("open", this.#introduction(state)), signal));
      this.#current = new Registration(line, o, state, saidAt, this.#host.now());
      this.#dialer.worked(line);
      this.#worseSince = undefined;
      this.#subject.moved("connected");
    } catch (err) {
      line.close();
      throw err;
    }
  }

  #introduction(state: DeviceState): OpenRequest {
    return { device: this.#subject.deviceId(), session: this.#subject.session, client: this.#settings.client, ...state };
  }

  async #say(op: "heartbeat" | "state", r: Registration, signal: AbortSignal): Promise<void> {
    const saidAt = this.#host.now();
    const state = this.#subject.state(saidAt, r.idleThreshold);
    const seq = op === "heartbeat" ? { seq: r.next() } : {};
    try {
      const { nextHeartbeatInMs } = answer(await unlessAborted(r.line.ask(op, { ...r.key, ...seq, ...whole(state) }), signal));
      r.answered(state, saidAt, this.#host.now() + nextHeartbeatInMs);
      this.#failures = 0;
      if (op === "heartbeat") this.#subject.beat();
      this.#subject.moved("connected");
    } catch (err) {
      if (signal.aborted || r.line.fault || !(err instanceof DeviceError) || !passing(err)) throw err;
      await this.#pause(recovery(err, this.#failures++, this.#host.random).after, signal);
      r.beatAt = this.#host.now();
    }
  }

  async #recover(err: DeviceError, signal: AbortSignal): Promise<void> {
    this.drop();
    this.#settings.logger.debug("rollcall: device:", err);
    if (err.code === "SUPERSEDED") {
      await this.#pause(SETTLED, signal); // it may be by a tab that has just taken the lead
      if (!signal.aborted) this.#subject.moved("superseded", err);
      return;
    }
    const { refused, after } = recovery(err, this.#failures++, this.#host.random);
    this.#subject.moved(refused ? "refused" : "connecting", err);
    await this.#pause(this.#host.online() ? after : Math.max(after, OFFLINE), signal);
  }

  async #pause(ms: number, signal: AbortSignal): Promise<void> {
    this.#retryAt = this.#host.now() + ms;
    while (!signal.aborted) {
      const left = this.#retryAt - this.#host.now();
      if (left <= 0) return;
      await this.#alarm.sleep(Math.min(left, NAP));
    }
  }

  /**
   * Leaves the device with the gateway while the page is stopped. A browser closes the
   * sockets of such a page, which ends their sessions; by HTTP there is none to close,
   * and the device has until the idle timeout.
   */
  park(): void {
    const r = this.#current;
    if (!r) return;
    const state = this.#subject.state(this.#host.now(), r.idleThreshold);
    if (r.line.transport === "http") void this.#mention(r.line.ask("state", { ...r.key, ...whole(state) }));
    else if (this.#settings.transport === "auto") {
      void this.#mention(this.#dialer.http().ask("open", this.#introduction(state)));
      this.drop();
    }
  }

  /** Lets something be asked of which nobody waits for the answer. */
  #mention(asked: Promise<unknown>): Promise<void> {
    return asked.then(() => {}, (err: unknown) => this.#settings.logger.debug("rollcall: device:", err));
  }

  /** Forgets the session without a word: it is another tab's now, or lost. */
  drop(): void {
    this.#current?.line.close();
    this.#current = undefined;
    this.#dialer.take()?.close();
  }

  /** Says goodbye and waits until the gateway has heard it, but not for long. */
  async leave(reason: "goodbye" | "logout"): Promise<void> {
    const r = this.#current;
    if (!r) return;
    const said = this.#mention(r.line.ask("close", { ...r.key, reason }));
    const late = new Alarm(this.#host.after);
    void said.then(() => late.ring());
    await late.sleep(GOODBYE);
    this.drop();
  }

  /** Says goodbye from a page that is being left, which cannot wait. */
  leaveAtOnce(): void {
    const r = this.#current;
    if (!r) return;
    const { token } = this.#dialer;
    const body = JSON.stringify({ ...r.key, reason: "goodbye", ...(token && { token }) });
    this.#host.beacon(this.#settings.address.http(PATH + paths.close), body);
    this.drop();
  }
}

function same(a: DeviceState, b: DeviceState): boolean {
  return a.foreground === b.foreground && a.active === b.active && a.activity === b.activity;
}

/** In a heartbeat what is left out is as before, so that the end of an activity must be said. */
function whole(state: DeviceState): DeviceState {
  return { ...state, activity: state.activity ?? "" };
}

function rank({ foreground, active }: DeviceState): number {
  return foreground ? (active ? 2 : 1) : 0;
}
