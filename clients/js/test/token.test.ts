import assert from "node:assert/strict";
import { test } from "node:test";
import { inboxPrefix, parseToken, token } from "../src/index.js";
import { refusal } from "./watcher.js";

// The same table as in subjects/token_test.go.
const tokens: Readonly<Record<string, string>> = {
  alice: "alice",
  "A-b_9": "A-b_9",
  "-": "-",
  _: "_",
  "*": "=Kg",
  ">": "=Pg",
  ".": "=Lg",
  " ": "=IA",
  "a.b": "=YS5i",
  "=": "=PQ",
  "=t": "=PXQ",
  日本: "=5pel5pys",
  "a@example.org": "=YUBleGFtcGxlLm9yZw",
  "\x00": "=AA",
  "a\r\nb": "=YQ0KYg",
  "\ufeffa": "=77u_YQ", // a byte order mark is a character like others
};

test("an id has one token, and the token its id", () => {
  for (const [id, want] of Object.entries(tokens)) {
    assert.equal(token(id), want);
    assert.equal(parseToken(want), id);
  }
  assert.equal(inboxPrefix("a b"), "_INBOX.viewer.=YSBi");
});

test("other forms are refused", () => {
  const others = ["", "=", "=t", "=YWxpY2U", "=Kg==", "=5pel5pys+/", "=Kh", "=K\ng", "=Kg\n", "a.b", "*", ">", "a b", "=_w"];
  for (const text of [...others, "a".repeat(129), "=" + btoa(".".repeat(129)).replace(/=+$/, "")]) {
    assert.throws(() => parseToken(text), refusal("invalid_id"), text);
  }
});

test("an id is 1 to 128 bytes of UTF-8", () => {
  for (const id of ["a".repeat(128), "ü".repeat(64), "🦉".repeat(32)]) assert.equal(parseToken(token(id)), id);
  for (const id of ["", "a".repeat(129), "ü".repeat(64) + "a", "\ud83e", "a\udd89", "\udd89\ud83e"]) {
    assert.throws(() => token(id), refusal("invalid_id"));
  }
});
