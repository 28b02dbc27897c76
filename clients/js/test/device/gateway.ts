import type { World } from "./world.js";

type Fields = Record<string, unknown>;

/** Something that a gateway was asked to do. */
export interface Call {
  readonly at: number;
  readonly by: "websocket" | "http";
  readonly op: string;
  readonly body: Fields;
}

interface Session {
  readonly id: string;
  readonly epoch: number;
  readonly device: string;
  heardAt: number;
  readonly socket: Socket | undefined;
}

const IDLE_TIMEOUT = 75_000;

const ops: Readonly<Record<string, string>> = { session: "open", heartbeat: "heartbeat", state: "state", close: "close" };

/** A gateway as its protocol has it, with the timing of the default preset. */
export class Gateway {
  readonly calls: Call[] = [];
  readonly sessions = new Map<string, Session>();
  readonly sockets = new Set<Socket>();
  /** Nobody can connect: at all, or by WebSocket. */
  down = false;
  socketless = false;
  /** It takes what is said and does not answer. */
  mute = false;
  /** Refuses whatever comes. */
  refusal: { code: string; retryAfterMs?: number } | undefined;
  /** Answers without saying to what. */
  nameless = false;
  /** When there was no session, each time that one was opened again. */
  readonly gaps: { readonly from: number; readonly to: number }[] = [];
  readonly #world: World;
  #epoch = 0;
  #emptySince: number | undefined;

  constructor(world: World) {
    this.#world = world;
  }

  /** The longest time without a session, of those that began after `from`. */
  longestGap(from = 0): number {
    return Math.max(0, ...this.gaps.filter((g) => g.from >= from).map((g) => g.to - g.from));
  }

  /** What it was asked for, of one kind or all. */
  of(op?: string): Call[] {
    return this.calls.filter((c) => op === undefined || c.op === op);
  }

  get last(): Fields {
    return this.calls.at(-1)?.body ?? {};
  }

  /** Its process is another one now, and knows no sessions. */
  restart(code = 1006): void {
    this.sessions.clear();
    for (const s of this.sockets) s.hangUp(code);
  }

  socket(_url: string, deliver: (event: () => void) => void): WebSocket {
    return new Socket(this, this.#world, deliver) as unknown as WebSocket;
  }

  async fetch(url: string, init: RequestInit): Promise<Response> {
    if (this.down) throw new TypeError("Failed to fetch");
    const body = JSON.parse(String(init.body)) as Fields;
    const op = ops[url.replace("https://gateway.test/api/v1/presence/", "")];
    if (op === undefined) return new Response("<h1>Not found</h1>", { status: 404 });
    const answer = this.answer("http", op, body);
    const muted = new Promise<never>((_, reject) => init.signal?.addEventListener("abort", () => reject(init.signal?.reason)));
    if (this.mute) await muted;
    return new Response(JSON.stringify(answer), { status: "error" in answer ? 400 : 200 });
  }

  answer(by: Call["by"], op: string, body: Fields, socket?: Socket): Fields {
    this.#expire();
    this.calls.push({ at: this.#world.time, by, op, body });
    if (this.refusal) return { error: { message: "no", ...this.refusal } };
    if (op === "open") return this.#open(String(body["device"]), socket);
    const session = this.sessions.get(String(body["sessionId"]));
    if (!session) return { error: { code: "UNREGISTERED", message: "no session" } };
    session.heardAt = this.#world.time;
    if (op === "close") this.sessions.delete(session.id);
    this.#emptied();
    return { nextHeartbeatInMs: this.#next() };
  }

  #open(device: string, socket: Socket | undefined): Fields {
    if (this.#emptySince !== undefined) this.gaps.push({ from: this.#emptySince, to: this.#world.time });
    this.#emptySince = undefined;
    for (const other of this.sessions.values()) {
      if (other.device === device) this.supersede(other);
    }
    const session = { id: this.#world.name(), epoch: ++this.#epoch, device, heardAt: this.#world.time, socket };
    this.sessions.set(session.id, session);
    return {
      sessionId: session.id,
      sessionEpoch: session.epoch,
      heartbeatIntervalMs: 30_000,
      idleThresholdMs: 300_000,
      idleTimeoutMs: IDLE_TIMEOUT,
      nextHeartbeatInMs: this.#next(),
    };
  }

  #next(): number {
    return 27_000 + Math.floor(this.#world.random() * 3_000);
  }

  /** A socket is gone, and its session with it. */
  left(socket: Socket): void {
    this.sockets.delete(socket);
    for (const [id, session] of this.sessions) if (session.socket === socket) this.sessions.delete(id);
    this.#emptied();
  }

  #emptied(): void {
    if (this.sessions.size === 0) this.#emptySince ??= this.#world.time;
  }

  /** Ends what was silent for too long, as if it were that moment. */
  #expire(): void {
    for (const [id, { heardAt }] of this.sessions) {
      if (this.#world.time - heardAt <= IDLE_TIMEOUT) continue;
      this.sessions.delete(id);
      if (this.sessions.size === 0) this.#emptySince ??= heardAt + IDLE_TIMEOUT;
    }
  }

  /** The device is connected elsewhere. */
  supersede(session: Session): void {
    this.sessions.delete(session.id);
    session.socket?.say({ op: "superseded" });
    session.socket?.hangUp(4001);
  }
}

const LATENCY = 5;

/** A WebSocket, both ends of it. */
class Socket extends EventTarget {
  readonly #gateway: Gateway;
  readonly #world: World;
  readonly #deliver: (event: () => void) => void;
  #open = false;
  #closed = false;

  constructor(gateway: Gateway, world: World, deliver: (event: () => void) => void) {
    super();
    this.#gateway = gateway;
    this.#world = world;
    this.#deliver = deliver;
    this.#later(() => {
      if (gateway.down || gateway.socketless) this.hangUp(1006);
      else {
        this.#open = true;
        gateway.sockets.add(this);
        this.#fire(new Event("open"));
      }
    });
  }

  #later(event: () => void): void {
    this.#world.after(LATENCY, event);
  }

  #fire(event: Event): void {
    this.#deliver(() => this.dispatchEvent(event));
  }

  send(text: string): void {
    if (!this.#open) throw new DOMException("not open", "InvalidStateError");
    const { op, id, ...body } = JSON.parse(text) as Fields;
    this.#later(() => {
      if (this.#gateway.down || this.#closed) return;
      const answer = this.#gateway.answer("websocket", String(op), body, this);
      if (!this.#gateway.mute) this.say({ ...(!this.#gateway.nameless && { op, id }), ...answer });
    });
  }

  say(message: Fields): void {
    this.#later(() => this.#fire(new MessageEvent("message", { data: JSON.stringify(message) })));
  }

  /** The gateway closes. */
  hangUp(code: number): void {
    this.#gateway.sockets.delete(this);
    this.#later(() => {
      if (this.#closed) return;
      this.#closed = true;
      this.#fire(Object.assign(new Event("close"), { code, reason: "" }));
    });
  }

  close(): void {
    this.#closed = true;
    this.#later(() => this.#gateway.left(this));
  }
}
