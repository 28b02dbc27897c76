interface Request {
  readonly owner: object;
  readonly hold: () => Promise<unknown>;
  readonly reject: (err: Error) => void;
  readonly resolve: () => void;
}

/** Web Locks as far as an election needs them, for tabs that are no tabs. */
export class Locks {
  readonly #held = new Map<string, Request>();
  readonly #queues = new Map<string, Request[]>();

  /** What a tab sees of them. One that is stopped may be granted a lock, and does not hear of it. */
  of(owner: { deliver(event: () => void): void }): Pick<LockManager, "request"> {
    const request = (name: string, options: unknown, granted?: unknown) => {
      const hold = () => new Promise((resolve) => owner.deliver(() => resolve((granted as () => Promise<unknown>)())));
      return this.#request(owner, name, options as LockOptions, hold);
    };
    return { request };
  }

  #request(owner: object, name: string, { signal, steal }: LockOptions, hold: () => Promise<unknown>): Promise<never> {
    return new Promise<void>((resolve, reject) => {
      const request: Request = { owner, hold, resolve, reject };
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
    void next.hold().then(() => this.#free(name, next));
  }

  #free(name: string, request: Request): void {
    if (this.#held.get(name) !== request) return; // it was stolen
    this.#held.delete(name);
    request.resolve();
    this.#grant(name);
  }

  /** The browser takes back what a tab has that is gone. */
  bury(owner: object): void {
    for (const queue of this.#queues.values()) queue.splice(0, queue.length, ...queue.filter((r) => r.owner !== owner));
    for (const [name, request] of this.#held) if (request.owner === owner) this.#free(name, request);
  }
}
