interface Request {
  readonly hold: () => Promise<unknown>;
  readonly reject: (err: Error) => void;
  readonly resolve: () => void;
}

/** Web Locks as far as an election needs them, for tabs that are no tabs. */
export class Locks implements Pick<LockManager, "request"> {
  readonly #held = new Map<string, Request>();
  readonly #queues = new Map<string, Request[]>();

  request(name: string, options: unknown, hold?: unknown): Promise<never> {
    const { signal, steal } = options as { signal?: AbortSignal; steal?: boolean };
    return new Promise<void>((resolve, reject) => {
      const request: Request = { hold: hold as () => Promise<unknown>, resolve, reject };
      const queue = this.#queues.get(name) ?? [];
      this.#queues.set(name, queue);
      signal?.addEventListener("abort", () => {
        if (!queue.includes(request)) return;
        queue.splice(queue.indexOf(request), 1);
        reject(signal.reason as Error);
      });
      if (steal) {
        this.#held.get(name)?.reject(new DOMException("stolen", "AbortError"));
        this.#held.delete(name);
        queue.unshift(request);
      } else queue.push(request);
      this.#grant(name);
    }) as Promise<never>;
  }

  #grant(name: string): void {
    if (this.#held.has(name)) return;
    const next = this.#queues.get(name)?.shift();
    if (!next) return;
    this.#held.set(name, next);
    void next.hold().then(() => {
      if (this.#held.get(name) !== next) return; // it was stolen
      this.#held.delete(name);
      next.resolve();
      this.#grant(name);
    });
  }

  /** The browser takes the lock from a tab that died. */
  bury(): void {
    for (const name of [...this.#held.keys()]) {
      this.#held.delete(name);
      this.#grant(name);
    }
  }
}
