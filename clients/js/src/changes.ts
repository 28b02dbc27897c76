import type { Change } from "./state.js";

export type Listener = (change: Change) => void;

/** Hands changes to listeners and iterators. */
export class Changes {
  readonly #listeners = new Set<Listener>();
  readonly #iterators = new Set<ChangeIterator>();
  readonly #waiting = new Set<Change>();
  #delivering = false;
  #ended = false;

  on(listener: Listener): () => void {
    const mine: Listener = (change) => listener(change); // so that the same may listen twice
    this.#listeners.add(mine);
    return () => this.#listeners.delete(mine);
  }

  iterate(): ChangeIterator {
    const iterator: ChangeIterator = new ChangeIterator(() => this.#iterators.delete(iterator));
    if (this.#ended) iterator.end();
    else this.#iterators.add(iterator);
    return iterator;
  }

  push(changes: readonly Change[]): void {
    for (const it of this.#iterators) it.push(changes);
    for (const c of changes) this.#waiting.add(c);
    // What a listener brings about is told after what is being told, so that nobody
    // hears of a target in the wrong order.
    if (this.#delivering) return;
    this.#delivering = true;
    for (const c of this.#waiting) {
      this.#waiting.delete(c);
      this.#tell(c);
    }
    this.#delivering = false;
  }

  #tell(change: Change): void {
    for (const listener of this.#listeners) {
      try {
        listener(change);
      } catch (err) {
        // It is the application's and must not stop the others: as for an EventTarget.
        queueMicrotask(() => {
          throw err;
        });
      }
    }
  }

  /** Forgets what waits for targets. */
  drop(targets: readonly string[]): void {
    const dropped = new Set(targets);
    for (const c of this.#waiting) {
      if (dropped.has(c.target)) this.#waiting.delete(c);
    }
    for (const it of this.#iterators) it.drop(targets);
  }

  end(): void {
    this.#ended = true;
    for (const it of this.#iterators) it.end();
    this.#listeners.clear();
  }
}

/**
 * Iterates over changes as they come. At most one change of each target waits: for a
 * slow reader newer ones take its place, so that the last state of every target always
 * arrives.
 */
export class ChangeIterator implements AsyncIterableIterator<Change> {
  /** By target. A newer change keeps the place of the older one. */
  readonly #waiting = new Map<string, Change>();
  readonly #readers: ((result: IteratorResult<Change>) => void)[] = [];
  readonly #release: () => void;
  #ended = false;

  constructor(release: () => void) {
    this.#release = release;
  }

  push(changes: readonly Change[]): void {
    for (const c of changes) {
      const reader = this.#readers.shift();
      if (reader) reader({ value: c, done: false });
      else this.#waiting.set(c.target, c);
    }
  }

  drop(targets: readonly string[]): void {
    for (const t of targets) this.#waiting.delete(t);
  }

  end(): void {
    this.#ended = true;
    for (const reader of this.#readers.splice(0)) reader(ended());
  }

  next(): Promise<IteratorResult<Change>> {
    for (const [target, value] of this.#waiting) {
      this.#waiting.delete(target);
      return Promise.resolve({ value, done: false });
    }
    if (this.#ended) return Promise.resolve(ended());
    return new Promise((resolve) => this.#readers.push(resolve));
  }

  return(): Promise<IteratorResult<Change>> {
    this.#waiting.clear();
    this.#release();
    this.end();
    return Promise.resolve(ended());
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}

function ended(): IteratorReturnResult<undefined> {
  return { value: undefined, done: true };
}
