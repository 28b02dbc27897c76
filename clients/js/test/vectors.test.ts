import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, test } from "node:test";
import { decodeMessage, decodeReply } from "../src/decode.js";
import { Reducer } from "../src/reducer.js";
import type { State } from "../src/state.js";

// The vectors of the Go reducer; fanout/viewer/vectors_test.go describes them.
const vectors = new URL("../../../../fanout/viewer/testdata/reducer/", import.meta.url);

interface Seen {
  stale?: boolean;
  changes?: Record<string, string>;
  states?: Record<string, string>;
  lost?: number[];
  next_claim?: number;
  members?: string[];
}

interface Step extends Seen {
  now: number;
  do: string;
  targets?: string[];
  message?: unknown;
  reply?: unknown;
  asked?: string[];
  base?: number[];
  once?: boolean;
  reason?: string;
  shards?: number[];
}

interface Case {
  name: string;
  steps: Step[];
}

for (const file of ["named.json", "random.json"]) {
  describe(file, () => {
    const cases = JSON.parse(readFileSync(new URL(file, vectors), "utf8")) as Case[];
    assert.ok(cases.length > 0);
    for (const { name, steps } of cases) test(name, () => play(steps));
  });
}

/** Takes a new reducer through the steps and checks what is seen after each. */
function play(steps: readonly Step[]): void {
  const reducer = new Reducer();
  const leaving: (() => void)[] = [];
  for (const [i, step] of steps.entries()) {
    const fresh = act(reducer, leaving, step);
    const changes = reducer.changes(step.now);
    for (const c of changes) assert.equal(c.at, step.now);
    const states = Object.fromEntries([...reducer.states()].map(([t, s]) => [t, written(s)]));
    const lost = reducer.lost(step.now);
    const seen: Seen = {
      stale: !fresh,
      changes: Object.fromEntries(changes.map((c) => [c.target, written(c)])),
      lost: [...lost].sort(),
      next_claim: reducer.nextClaim() ?? 0,
      ...(step.states && { states }),
      ...(step.members && { members: reducer.members(lost) }),
    };
    const expected: Seen = {
      stale: step.stale ?? false,
      changes: step.changes ?? {},
      lost: step.lost ?? [],
      next_claim: step.next_claim ?? 0,
      ...(step.states && { states: step.states }),
      ...(step.members && { members: step.members }),
    };
    assert.deepEqual(seen, expected, `step ${i}, ${step.do}`);
  }
}

/** Does what a step says; false for a reply from a former owner. */
function act(reducer: Reducer, leaving: (() => void)[], step: Step): boolean {
  const { now, targets = [] } = step;
  const reply = () => decodeReply(wire(step.reply));
  switch (step.do) {
    case "want":
      reducer.want(targets);
      break;
    case "unwant":
      reducer.unwant(targets);
      break;
    case "message":
      reducer.message(decodeMessage(wire(step.message)), now);
      break;
    case "reply":
      return reducer.reply(
        reply(),
        { asked: step.asked ?? [], base: new Set(step.base), once: step.once ?? false },
        now,
      );
    case "unsubscribed":
      reducer.unsubscribed(reply(), now);
      break;
    case "refreshed":
      reducer.refreshed(reply(), now);
      break;
    case "leave":
      leaving.push(reducer.leave(targets));
      break;
    case "done":
      leaving.shift()?.();
      break;
    case "offline":
      reducer.setOffline(step.reason ?? "");
      break;
    case "lose":
      if (step.shards) reducer.lose(step.shards);
      else reducer.loseAll();
      break;
    case "forget":
      reducer.forget(step.shards ?? []);
      break;
    case "wait":
      break;
    default:
      assert.fail(`nobody knows how to ${step.do}`);
  }
  return true;
}

function wire(value: unknown): Uint8Array {
  return new TextEncoder().encode(JSON.stringify(value));
}

/** A state as the vectors write it: status, version, and the other fields by name. */
function written({ target: _target, status, version, received: _received, ...rest }: State & { at?: number }): string {
  const { at: _at, ...fields } = rest;
  const words = Object.entries(fields)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, value]) => `${name}=${value}`);
  return [status, version, ...words].join(" ");
}
