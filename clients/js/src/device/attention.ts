import type { DeviceState } from "./protocol.js";

/** What a tab says of itself. */
export interface Report {
  readonly foreground: boolean;
  /** How long nobody has used it, in ms; undefined if it never was used. */
  readonly unused?: number;
  readonly activity?: string;
}

interface Tab {
  readonly foreground: boolean;
  readonly used: number;
  readonly activity: string | undefined;
  /** The round in which it was heard last. */
  readonly round: number;
}

/**
 * What is known of the tabs of a browser, and what it makes the state of the device:
 * the maximum of theirs. A tab that was silent for a whole round of reports is gone.
 */
export class Attention {
  readonly #tabs = new Map<string, Tab>();
  #round = 0;

  report(tab: string, { foreground, unused, activity }: Report, now: number): void {
    this.#tabs.set(tab, { foreground, used: now - (unused ?? Infinity), activity, round: this.#round });
  }

  remove(tab: string): void {
    this.#tabs.delete(tab);
  }

  /** Begins a round in which every tab but `self` should report. */
  round(self: string): void {
    for (const [name, tab] of this.#tabs) {
      if (name !== self && tab.round < this.#round) this.#tabs.delete(name);
    }
    this.#round++;
  }

  /** Says whether there are tabs besides this one. */
  others(self: string): boolean {
    return [...this.#tabs.keys()].some((name) => name !== self);
  }

  /** The state of the device, if a tab counts as used until `threshold` ms later. */
  state(now: number, threshold: number): DeviceState {
    let first: Tab | undefined;
    for (const tab of this.#tabs.values()) {
      if (!first || before(tab, first)) first = tab;
    }
    if (!first) return { foreground: false, active: false };
    const { foreground, used, activity } = first;
    return { foreground, active: foreground && now - used < threshold, ...(activity !== undefined && { activity }) };
  }

  /** When the state changes if nothing happens; Infinity for never. */
  changesAt(now: number, threshold: number): number {
    let last = -Infinity;
    for (const { foreground, used } of this.#tabs.values()) if (foreground) last = Math.max(last, used);
    return last + threshold > now ? last + threshold : Infinity;
  }
}

/** Which of two tabs speaks for the device: one in the foreground, the one used last. */
function before(a: Tab, b: Tab): boolean {
  return a.foreground === b.foreground ? a.used > b.used : a.foreground;
}
