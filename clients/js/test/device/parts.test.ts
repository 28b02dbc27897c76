import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { SteadyClock } from "../../src/device/clock.js";
import { DeviceError, type DeviceErrorCode } from "../../src/device/errors.js";
import { Address } from "../../src/device/line.js";
import { opened, parse, refusal } from "../../src/device/protocol.js";
import { recovery } from "../../src/device/recovery.js";
import { alike } from "../../src/device/status.js";

test("a clock goes on while the machine sleeps, and not back", () => {
  let [wall, monotonic] = [1_000_000, 0];
  const clock = new SteadyClock(() => wall, () => monotonic);
  const pass = (w: number, m: number) => {
    [wall, monotonic] = [wall + w, monotonic + m];
    return clock.now();
  };
  assert.equal(pass(0, 0), 0);
  assert.equal(pass(100, 100), 100);
  assert.equal(pass(60_000, 10), 60_100); // slept
  assert.equal(pass(-3_600_000, 10), 60_110); // set back
  assert.equal(pass(10, 10), 60_120);
  let at = 0;
  for (let i = 0; i < 10_000; i++) at = pass(i % 2, 0.5); // a coarse wall clock does not make it hurry
  assert.equal(at, 65_120);
});

/** The longest pauses in ms after the first and the fifth failure. */
const pauses: Readonly<Partial<Record<DeviceErrorCode, readonly [number, number, refused: boolean]>>> = {
  UNREACHABLE: [1_000, 15_000, false],
  UNAVAILABLE: [1_000, 15_000, false],
  INTERNAL: [1_000, 15_000, false],
  RATE_LIMITED: [1_000, 15_000, false],
  MALFORMED: [1_000, 15_000, false],
  NO_TOKEN: [1_000, 15_000, false],
  UNREGISTERED: [2_000, 10_000, false],
  DEAD: [2_000, 10_000, false],
  DRAINING: [5_000, 15_000, false],
  UNAUTHENTICATED: [1_000, 600_000, true],
  FORBIDDEN: [120_000, 600_000, true],
  INVALID: [120_000, 600_000, true],
  NOT_FOUND: [120_000, 600_000, true],
};

test("pauses grow up to a limit and have nothing in common", () => {
  for (const [code, [first, fifth, refused]] of Object.entries(pauses)) {
    const err = new DeviceError(code as DeviceErrorCode, "");
    assert.equal(recovery(err, 0, () => 1).after, first, code);
    assert.deepEqual(recovery(err, 4, () => 1), { refused, after: fifth }, code);
    assert.equal(recovery(err, 4, () => 0).after, refused ? fifth / 2 : 0, code);
  }
  const told = new DeviceError("UNAVAILABLE", "", 20_000);
  assert.equal(recovery(told, 0, () => 0).after, 20_000);
  assert.equal(recovery(told, 9, () => 1).after, 35_000);
});

test("an answer that is none, and a refusal", () => {
  const whole = { sessionId: "s", sessionEpoch: 1, idleThresholdMs: 1, idleTimeoutMs: 1, nextHeartbeatInMs: 0.5 };
  const malformed = (err: unknown) => err instanceof DeviceError && err.code === "MALFORMED";
  for (const text of ["", "[]", "null", "7", "<html>"]) assert.throws(() => parse(text), malformed, text);
  assert.throws(() => opened(whole), malformed);
  assert.equal(opened({ ...whole, nextHeartbeatInMs: 1, later: {} }).nextHeartbeatInMs, 100); // no storm
  for (const name of Object.keys(whole)) assert.throws(() => opened({ ...whole, nextHeartbeatInMs: 1, [name]: null }), malformed, name);
  assert.equal(refusal({}), undefined);
  assert.equal(refusal({ error: { code: "LATER", message: "m" } })?.code, "INTERNAL");
  assert.equal(refusal({ error: "what" })?.code, "INTERNAL");
  assert.equal(refusal({ error: { code: "UNAVAILABLE", retryAfterMs: 7 } })?.retryAfter, 7);
});

test("an address is one for all transports", () => {
  for (const url of ["https://p.example/", "wss://p.example", "https://p.example"]) {
    assert.equal(new Address(url).http("/x"), "https://p.example/x");
    assert.equal(new Address(url).socket("/x"), "wss://p.example/x");
  }
  assert.equal(new Address("http://p.example:1/a/b/").socket("/x"), "ws://p.example:1/a/b/x");
});

test("a status is the same whatever the order of its fields", () => {
  const a = { phase: "connected", leading: true, foreground: true, active: false } as const;
  assert.ok(alike(a, { active: false, foreground: true, leading: true, phase: "connected" }));
  assert.ok(!alike(a, { ...a, active: true }));
});

test("a page that is only a device does not load what viewers need", () => {
  const bundle = readFileSync(new URL("../../page/device.js", import.meta.url), "utf8");
  assert.doesNotMatch(bundle, /nats/i);
  assert.ok(bundle.length < 64 << 10, `${bundle.length} bytes`);
});
