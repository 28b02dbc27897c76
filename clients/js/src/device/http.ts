import { unreachable, type DeviceError } from "./errors.js";
import type { Host } from "./host.js";
import type { Address, Line } from "./line.js";
import { PATH, parse, paths, refusal, type Op } from "./protocol.js";

/** Every operation is a request of its own, so it works wherever pages do. */
export class HttpLine implements Line {
  readonly transport = "http";
  readonly fault: DeviceError | undefined;
  readonly #host: Host;
  readonly #address: Address;
  readonly #token: string;
  readonly #timeout: number;

  constructor(host: Host, address: Address, token: string, timeout: number) {
    this.#host = host;
    this.#address = address;
    this.#token = token;
    this.#timeout = timeout;
  }

  async ask(op: Op, body: object): Promise<Readonly<Record<string, unknown>>> {
    const late = new AbortController();
    const cancel = this.#host.after(this.#timeout, () => late.abort(unreachable(`no answer to ${op}`)));
    try {
      return await this.#post(op, body, late.signal);
    } finally {
      cancel();
    }
  }

  async #post(op: Op, body: object, signal: AbortSignal): Promise<Readonly<Record<string, unknown>>> {
    let status: number, ok: boolean, text: string;
    try {
      const response = await this.#host.fetch(this.#address.http(PATH + paths[op]), {
        method: "POST",
        headers: { "Content-Type": "application/json", ...(this.#token && { Authorization: `Bearer ${this.#token}` }) },
        body: JSON.stringify(body),
        cache: "no-store",
        credentials: "omit",
        keepalive: true, // it arrives even if the page does not live to see it
        signal,
      });
      ({ status, ok } = response);
      text = await response.text();
    } catch (err) {
      throw signal.aborted ? signal.reason : unreachable(String(err), err);
    }
    const refused = refusalIn(text);
    if (refused) throw refused;
    if (!ok) throw unreachable(`${op} was answered by HTTP ${status}`); // not by a gateway
    return parse(text);
  }

  close(): void {}
}

/** Of a text that may be a proxy's. */
function refusalIn(text: string): DeviceError | undefined {
  try {
    return refusal(parse(text));
  } catch {
    return undefined;
  }
}
