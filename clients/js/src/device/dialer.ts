import { unlessAborted } from "../time.js";
import { DeviceError } from "./errors.js";
import type { Host } from "./host.js";
import { HttpLine } from "./http.js";
import type { Line } from "./line.js";
import type { DeviceSettings } from "./options.js";
import { SocketLine } from "./socket.js";

/** How long, in ms, no WebSocket is tried after one failed where HTTP works. */
const WITHOUT_SOCKET = 300_000;

/** Finds ways to the gateway: by WebSocket, or by HTTP where there is none. */
export class Dialer {
  /** The one that the present session was opened with. */
  token = "";
  readonly #host: Host;
  readonly #settings: DeviceSettings;
  readonly #changed: () => void;
  /** When a WebSocket may be tried again. */
  #socketAt = 0;
  #found: Line | undefined;

  /** `changed` is called when a line has ended, or a better one was found. */
  constructor(host: Host, settings: DeviceSettings, changed: () => void) {
    this.#host = host;
    this.#settings = settings;
    this.#changed = changed;
  }

  async connect(signal: AbortSignal): Promise<Line> {
    this.token = await unlessAborted(this.#askToken(), signal);
    const { transport } = this.#settings;
    if (transport === "http" || (transport === "auto" && !this.#mayTry())) return this.http();
    try {
      return await this.#connectSocket(signal);
    } catch (err) {
      if (transport === "websocket" || signal.aborted) throw err;
      this.#settings.logger.debug("rollcall: device: no WebSocket, by HTTP instead:", err);
      return this.http();
    }
  }

  async #askToken(): Promise<string> {
    try {
      return await this.#settings.token();
    } catch (err) {
      throw new DeviceError("NO_TOKEN", String(err), 0, { cause: err });
    }
  }

  #mayTry(): boolean {
    return this.#host.socket !== undefined && this.#host.now() >= this.#socketAt;
  }

  /** A line by HTTP, which needs no connecting. */
  http(): Line {
    return new HttpLine(this.#host, this.#settings.address, this.token, this.#settings.timeout);
  }

  #socket(): Promise<Line> {
    const { address, timeout } = this.#settings;
    return SocketLine.connect(this.#host, address, this.token, timeout, this.#changed);
  }

  async #connectSocket(signal: AbortSignal): Promise<Line> {
    const connecting = this.#socket();
    try {
      return await unlessAborted(connecting, signal);
    } catch (err) {
      connecting.then((line) => line.close(), () => {});
      throw err;
    }
  }

  /** The line works. If it is by HTTP, what failed was WebSocket, and not the gateway. */
  worked(line: Line): void {
    if (line.transport === "http") this.#socketAt = Math.max(this.#socketAt, this.#host.now() + WITHOUT_SOCKET);
  }

  /** Looks from time to time for something better than the line. */
  improve({ transport }: Line): void {
    if (transport !== "http" || this.#settings.transport !== "auto" || !this.#mayTry()) return;
    this.#socketAt = this.#host.now() + WITHOUT_SOCKET;
    this.#socket().then(
      (line) => {
        this.#found = line;
        this.#changed();
      },
      () => {}, // it stays with HTTP
    );
  }

  /** The better line, once it was found, unless it has ended since. */
  take(): Line | undefined {
    const found = this.#found;
    this.#found = undefined;
    return found?.fault ? undefined : found;
  }
}
