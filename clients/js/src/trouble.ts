/** Decides when requests that fail make everything unknown. It reads no clock. */
export class Trouble {
  /** When the first failure in a row was; undefined if the last request worked. */
  #since: number | undefined;
  /** In a row. */
  #timeouts = 0;

  worked(): void {
    this.#since = undefined;
    this.#timeouts = 0;
  }

  failed(timeout: boolean, now: number): void {
    this.#since ??= now;
    if (timeout) this.#timeouts++;
  }

  /**
   * Says that the fanout does not answer: two requests timed out, or every request of
   * a whole outage failed otherwise.
   */
  silent(outage: number, now: number): boolean {
    return this.#timeouts >= 2 || (this.#since !== undefined && now - this.#since >= outage);
  }
}
