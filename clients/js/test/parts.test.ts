import assert from "node:assert/strict";
import { test } from "node:test";
import { Changes } from "../src/changes.js";
import { decodeMessage, decodePolicy, decodeReply } from "../src/decode.js";
import { MalformedError, RollcallError } from "../src/errors.js";
import { settle } from "../src/settings.js";
import type { Change } from "../src/state.js";
import { halving } from "../src/targets.js";
import { backoff } from "../src/time.js";
import { Trouble } from "../src/trouble.js";
import { refusal } from "./watcher.js";

const bytes = (text: string) => new TextEncoder().encode(text);

test("what is absent or null is empty, what is not known is ignored", () => {
  const position = { shard: 0, generation: 0, seq: 0, feed: "", reason: "", targets: 0 };
  assert.deepEqual(decodeMessage(bytes("{}")), { ...position, changes: [] });
  assert.deepEqual(decodeReply(bytes('{"shards":null,"later":1}')), { shards: [] });
  assert.deepEqual(
    decodeReply(bytes('{"shards":[{"shard":2,"views":[{"target":"a","status":"online","text":"","version":7,"x":1}]}]}')),
    { shards: [{ ...position, shard: 2, views: [{ target: "a", status: "online", version: 7 }] }] },
  );
});

test("malformed data is refused", () => {
  const texts = ["", "null", "[]", "1", '{"seq":-1}', '{"seq":1.5}', '{"seq":9007199254740992}', '{"seq":"1"}', '{"changes":{}}'];
  texts.push('{"changes":[null]}', '{"changes":[{"target":1}]}', String.raw`{"changes":[{"target":"\ud83e"}]}`);
  for (const text of texts) assert.throws(() => decodeMessage(bytes(text)), MalformedError, text);
  assert.throws(() => decodeReply(Uint8Array.of(0x22, 0xff, 0x22)), MalformedError);
});

test("a policy: what is absent is empty, and an id may be any text", () => {
  const empty = { user: "", contacts: [], blocks: [], overrides: new Map(), groups: [], statuses: [] };
  assert.deepEqual(decodePolicy(bytes('{"later":1,"blocks":null}')), empty);
  const texts = {
    '{"overrides":{"__proto__":"exact"},"member":"coarse"}': { overrides: new Map([["__proto__", "exact"]]), member: "coarse" },
    '{"statuses":[{"availability":"dnd","priority":7,"until":"2000-01-01T01:02:01.5Z","later":1}]}': {
      statuses: [{ availability: "dnd", priority: 7, until: new Date("2000-01-01T01:02:01.500Z") }],
    },
  };
  for (const [text, want] of Object.entries(texts)) assert.deepEqual(decodePolicy(bytes(text)), { ...empty, ...want });
  const bad = ["[]", '{"blocks":[1]}', '{"blocks":{}}', '{"overrides":[]}', '{"overrides":{"a":1}}', '{"statuses":[{"until":"soon"}]}'];
  bad.push('{"member":1}', String.raw`{"overrides":{"\ud83e":"exact"}}`);
  for (const text of bad) assert.throws(() => decodePolicy(bytes(text)), MalformedError, text);
});

test("an answer that is too large is asked for in halves", async () => {
  const targets = ["a", "b", "c", "d", "e", "f", "g"];
  for (const [limit, parts] of [[7, 1], [3, 3], [1, 7]] as const) {
    const answered: string[][] = [];
    await halving(targets, async (part) => {
      if (part.length > limit) throw new RollcallError("too_large", "ask in parts");
      answered.push([...part]);
    });
    assert.deepEqual(answered.flat(), targets);
    assert.equal(answered.length, parts);
  }
  const always = (code: "too_large" | "internal") => halving(targets, () => Promise.reject(new RollcallError(code, "")));
  await assert.rejects(always("too_large"), refusal("too_large"));
  await assert.rejects(always("internal"), refusal("internal"));
});

test("pauses double, at random within their upper half", () => {
  for (const [attempt, limit] of [250, 500, 1_000, 2_000, 4_000, 8_000, 10_000, 10_000].entries()) {
    for (let i = 0; i < 50; i++) {
      const ms = backoff(attempt);
      assert.ok(ms >= limit / 2 && ms < limit, `attempt ${attempt}: ${ms}`);
    }
  }
  assert.ok(backoff(1e9) <= 10_000);
});

test("two timeouts or failures for a whole outage are silence", () => {
  const trouble = new Trouble();
  trouble.failed(false, 0);
  trouble.failed(true, 10);
  assert.equal(trouble.silent(100, 99), false);
  assert.equal(trouble.silent(100, 100), true);
  trouble.worked();
  assert.equal(trouble.silent(100, 1_000), false);
  trouble.failed(true, 1_000);
  trouble.failed(true, 1_001);
  assert.equal(trouble.silent(100, 1_001), true);
});

function change(target: string, version: number): Change {
  return { target, status: "online", version, received: 0, at: 0 };
}

test("what a listener brings about is told after what is being told", () => {
  const changes = new Changes();
  const heard: string[] = [];
  changes.on((c) => {
    if (c.target === "a") changes.push([change("b", 2)]);
  });
  changes.on((c) => heard.push(c.target + c.version));
  changes.push([change("a", 1), change("b", 1), change("c", 1)]);
  assert.deepEqual(heard, ["a1", "b1", "c1", "b2"]);
});

test("nothing is told of what was dropped, or to whom has left", async () => {
  const changes = new Changes();
  const heard: string[] = [];
  const off = changes.on((c) => {
    heard.push(c.target);
    changes.drop(["b"]);
  });
  const iterator = changes.iterate();
  changes.push([change("a", 1), change("b", 1), change("c", 1)]);
  off();
  changes.push([change("d", 1)]);
  assert.deepEqual(heard, ["a", "c"]);
  const read: string[] = [];
  for await (const c of iterator) {
    read.push(c.target);
    if (c.target === "d") break;
  }
  assert.deepEqual(read, ["a", "c", "d"]);
  assert.equal((await iterator.next()).done, true);
});

test("options are checked", () => {
  assert.throws(() => settle({ viewer: "" }), refusal("invalid_id"));
  assert.throws(() => settle({ viewer: "a", prefix: "A.b" }), RangeError);
  for (const ms of [-1, 0, NaN, Infinity]) assert.throws(() => settle({ viewer: "a", refresh: ms }), RangeError);
  assert.equal(settle({ viewer: "a", spread: 0 }).spread, 0);
});
