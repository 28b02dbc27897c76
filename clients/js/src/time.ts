/** Milliseconds since 1970 by a clock that never goes back, unlike Date's. */
export function now(): number {
  return Math.floor(performance.timeOrigin + performance.now());
}

/** A random number of milliseconds up to `most`. */
export function upTo(most: number): number {
  return Math.random() * most;
}

/** `ms` give or take a fifth. */
export function jittered(ms: number): number {
  return ms * (0.8 + 0.4 * Math.random());
}

const FIRST = 250;
const LAST = 10_000;

/**
 * The pause in ms after a failed attempt, counted from 0: a random time in the upper
 * half of a quarter of a second, doubled with each attempt, and of ten seconds at
 * most, so that those who failed together do not come back in step.
 */
export function backoff(attempt: number): number {
  const limit = Math.min(FIRST * 2 ** attempt, LAST);
  return limit / 2 + upTo(limit / 2);
}

/** Resolves after `ms`; rejects with the signal's reason as soon as it is aborted. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const elapsed = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms);
  });
  try {
    await unlessAborted(elapsed, signal);
  } finally {
    clearTimeout(timer);
  }
}

/** The promise, or the signal's reason as soon as it is aborted. */
export async function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted();
  let stop = (): void => {};
  const aborted = new Promise<never>((_, reject) => {
    stop = () => reject(signal.reason as unknown);
    signal.addEventListener("abort", stop, { once: true });
  });
  promise.catch(() => {}); // if it fails after the abort, nobody wants to know
  try {
    return await Promise.race([promise, aborted]);
  } finally {
    signal.removeEventListener("abort", stop);
  }
}

/** Calls back after `ms`, unless the function that it returns is called before. */
export type After = (ms: number, due: () => void) => () => void;

export const after: After = (ms, due) => {
  const timer = setTimeout(due, ms);
  return () => clearTimeout(timer);
};

/** An alarm wakes its one sleeper; rung while it is awake, it wakes at once. */
export class Alarm {
  readonly #after: After;
  #rung = false;
  #wake: (() => void) | undefined;

  constructor(timers: After = after) {
    this.#after = timers;
  }

  ring(): void {
    this.#rung = true;
    this.#wake?.();
  }

  /** Returns when the alarm has rung or after `ms`, whichever is first. */
  async sleep(ms: number): Promise<void> {
    if (!this.#rung) {
      await new Promise<void>((resolve) => {
        const cancel = this.#after(Math.max(ms, 0), resolve);
        this.#wake = () => {
          cancel();
          resolve();
        };
      });
    }
    this.#rung = false;
    this.#wake = undefined;
  }
}
