import assert from "node:assert/strict";

/** Checks fields of an object, whatever others it has. */
export function has(actual: object | undefined, fields: Readonly<Record<string, unknown>>): void {
  assert.ok(actual);
  const found = Object.fromEntries(Object.keys(fields).map((name) => [name, (actual as Record<string, unknown>)[name]]));
  assert.deepEqual(found, fields);
}
