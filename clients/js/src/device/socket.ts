import { DeviceError, deviceError, malformed, unreachable, type DeviceErrorCode } from "./errors.js";
import type { Host } from "./host.js";
import type { Address, Line } from "./line.js";
import { PATH, parse, refusal, type Op } from "./protocol.js";

type Answer = Readonly<Record<string, unknown>>;

/** Somebody who waits for an answer. */
interface Waiting {
  readonly resolve: (answer: Answer) => void;
  readonly reject: (err: DeviceError) => void;
  readonly cancel: () => void;
}

/** What the gateway means by a close code. */
const closed: Readonly<Record<number, DeviceErrorCode>> = { 1012: "DRAINING", 4001: "SUPERSEDED", 4002: "DEAD" };

/** What the gateway says by itself before it closes. */
const ends: Readonly<Record<string, DeviceErrorCode>> = { superseded: "SUPERSEDED", dead: "DEAD" };

/** A WebSocket, on which a session is; the gateway can speak first. */
export class SocketLine implements Line {
  readonly transport = "websocket";
  fault: DeviceError | undefined;
  readonly #host: Host;
  readonly #socket: WebSocket;
  readonly #token: string;
  readonly #timeout: number;
  readonly #ended: () => void;
  readonly #waiting = new Map<number, Waiting>();
  #asked = 0;
  /** The last refusal that names no question; the gateway may close for it. */
  #complaint: DeviceError | undefined;

  private constructor(host: Host, socket: WebSocket, token: string, timeout: number, ended: () => void) {
    this.#host = host;
    this.#socket = socket;
    this.#token = token;
    this.#timeout = timeout;
    this.#ended = ended;
    socket.addEventListener("message", (e) => this.#receive(e.data));
    socket.addEventListener("close", (e) => this.#end(this.#why(e)));
  }

  /** Connects; `ended` is called once, when the line has ended by itself. */
  static async connect(host: Host, address: Address, token: string, timeout: number, ended: () => void): Promise<SocketLine> {
    if (!host.socket) throw unreachable("there is no WebSocket here");
    const socket = host.socket(address.socket(PATH + "socket"));
    const line = new SocketLine(host, socket, token, timeout, ended);
    await new Promise<void>((resolve, reject) => {
      const cancel = host.after(timeout, () => line.#end(unreachable("the WebSocket does not open")));
      const settle = () => {
        cancel();
        if (line.fault) reject(line.fault);
        else resolve();
      };
      socket.addEventListener("open", settle);
      line.#settle = settle;
    });
    line.#settle = undefined;
    return line;
  }

  #settle: (() => void) | undefined;

  ask(op: Op, body: object): Promise<Answer> {
    return new Promise((resolve, reject) => {
      if (this.fault) {
        reject(this.fault);
        return;
      }
      const id = ++this.#asked;
      // Who does not answer has gone without saying so.
      const cancel = this.#host.after(this.#timeout, () => this.#end(unreachable(`no answer to ${op}`)));
      this.#waiting.set(id, { resolve, reject, cancel });
      this.#socket.send(JSON.stringify({ op, id: String(id), ...body, ...(op === "open" && this.#token && { token: this.#token }) }));
    });
  }

  #receive(data: unknown): void {
    try {
      this.#take(parse(data));
    } catch (err) {
      this.#end(deviceError(err));
    }
  }

  #take(message: Answer): void {
    const { op, id } = message;
    const refused = refusal(message);
    if (id !== undefined) this.#answer(Number(id), message, refused);
    else if (refused) this.#complain(refused);
    else {
      const end = ends[String(op)];
      if (end) this.#end(new DeviceError(end, `the gateway says ${String(op)}`));
    }
  }

  /** Answers come in the order of the questions, so it can only be the oldest that is refused. */
  #complain(refused: DeviceError): void {
    const [oldest] = this.#waiting.keys();
    if (oldest === undefined) this.#complaint = refused;
    else this.#answer(oldest, {}, refused);
  }

  #answer(id: number, answer: Answer, refused: DeviceError | undefined): void {
    const waiting = this.#waiting.get(id);
    if (!waiting) throw malformed(`an answer to ${id}, which was not asked`);
    this.#waiting.delete(id);
    waiting.cancel();
    if (refused) waiting.reject(refused);
    else waiting.resolve(answer);
  }

  #why({ code, reason }: CloseEvent): DeviceError {
    const known = closed[code];
    if (known) return new DeviceError(known, reason || `the gateway closed with ${code}`);
    return this.#complaint ?? unreachable(`the WebSocket was closed with ${code}${reason && `: ${reason}`}`);
  }

  #end(fault: DeviceError): void {
    if (this.fault) return;
    this.fault = fault;
    this.#socket.close();
    for (const { reject, cancel } of this.#waiting.values()) {
      cancel();
      reject(fault);
    }
    this.#waiting.clear();
    this.#settle?.();
    this.#ended();
  }

  close(): void {
    this.#end(unreachable("closed here"));
  }
}
