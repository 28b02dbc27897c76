import assert from "node:assert/strict";
import { test } from "node:test";
import { LINGER, Roster } from "../board/roster.js";
import { midnight } from "../board/timeline.js";
import type { State, Status } from "../src/index.js";

/** The same history every time. */
function random(seed: number): (below: number) => number {
  return (below) => ((seed = (seed * 1103515245 + 12345) & 0x7fffffff) >>> 8) % below;
}

/** Who is in the list, worked out anew each time. */
function naive(states: Map<string, State>, left: Map<string, number>, watched: Set<string>, query: string): string[] {
  return [...states.values()]
    .filter((s) => s.target.toLowerCase().includes(query) && (s.status === "online" || left.has(s.target) || watched.has(s.target) || s.reason !== undefined))
    .map((s) => s.target)
    .sort((a, b) => {
      const [x, y] = [a.toLowerCase(), b.toLowerCase()];
      return x === y ? (a < b ? -1 : 1) : x < y ? -1 : 1;
    });
}

test("the list is what its rules say after any history", () => {
  const statuses: Status[] = ["online", "online", "online", "offline", "unknown", "withdrawn"];
  for (let seed = 1; seed <= 50; seed++) {
    const draw = random(seed);
    const watched = new Set<string>();
    const roster = new Roster((id) => watched.has(id));
    const states = new Map<string, State>();
    const left = new Map<string, number>();
    let query = "";
    let now = 0;
    for (let step = 0; step < 300; step++) {
      now += draw(LINGER / 10);
      const target = ["Ann", "ann", "bob", "Cleo", "dov", "eva"][draw(6)]! + (draw(2) === 0 ? "" : String(draw(3)));
      switch (draw(8)) {
        case 0:
          roster.search((query = ["", "an", "N", "eva1"][draw(4)]!));
          query = query.toLowerCase();
          break;
        case 1:
          if (!watched.delete(target)) watched.add(target);
          roster.review();
          break;
        case 2:
          roster.drop(target);
          states.delete(target);
          left.delete(target);
          break;
        case 3:
          roster.settle(now);
          for (const [id, at] of left) if (now - at >= LINGER) left.delete(id);
          break;
        default: {
          const status = statuses[draw(statuses.length)]!;
          const state: State = { target, status, version: step, received: now, ...(status === "unknown" && draw(2) === 0 && { reason: "disconnected" }) };
          const was = states.get(target);
          roster.apply(state, now);
          if (status === "withdrawn") {
            states.delete(target);
            left.delete(target);
          } else {
            states.set(target, state);
            if (was?.status === "online" && status !== "online") left.set(target, now);
          }
        }
      }
      assert.deepEqual(roster.shown.map((p) => p.id), naive(states, left, watched, query), `seed ${seed}, step ${step}`);
      assert.equal(roster.online, [...states.values()].filter((s) => s.status === "online").length);
    }
  }
});

test("a day begins when it does in its zone", () => {
  for (const [day, zone, want] of [
    ["2026-12-01", "UTC", "2026-12-01T00:00:00Z"],
    ["2026-12-01", "Europe/Berlin", "2026-11-30T23:00:00Z"],
    ["2026-03-29", "Europe/Berlin", "2026-03-28T23:00:00Z"], // the clocks change later that day
    ["2026-03-30", "Europe/Berlin", "2026-03-29T22:00:00Z"],
    ["2026-10-26", "Europe/Berlin", "2026-10-25T23:00:00Z"],
    ["2026-01-01", "Asia/Kathmandu", "2025-12-31T18:15:00Z"],
    ["2026-01-01", "America/St_Johns", "2026-01-01T03:30:00Z"],
  ] as const) {
    assert.equal(new Date(midnight(day, zone)).toISOString(), new Date(want).toISOString(), `${day} in ${zone}`);
  }
});
