import type { Reducer } from "./reducer.js";
import type { State } from "./state.js";

/** A view of what a reducer shows, by target; it follows the reducer. */
export class States implements ReadonlyMap<string, State> {
  readonly #reducer: Reducer;

  constructor(reducer: Reducer) {
    this.#reducer = reducer;
  }

  get(target: string): State | undefined {
    return this.#reducer.state(target);
  }

  has(target: string): boolean {
    return this.get(target) !== undefined;
  }

  /** Counts, which takes a while for thousands of targets. */
  get size(): number {
    return [...this.keys()].length;
  }

  *entries(): MapIterator<[string, State]> {
    yield* this.#reducer.states();
  }

  *keys(): MapIterator<string> {
    for (const [target] of this.#reducer.states()) yield target;
  }

  *values(): MapIterator<State> {
    for (const [, state] of this.#reducer.states()) yield state;
  }

  [Symbol.iterator](): MapIterator<[string, State]> {
    return this.entries();
  }

  forEach(visit: (state: State, target: string, map: ReadonlyMap<string, State>) => void): void {
    for (const [target, state] of this.#reducer.states()) visit(state, target, this);
  }
}
