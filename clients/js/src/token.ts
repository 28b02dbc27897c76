import { RollcallError } from "./errors.js";

/** The longest id of a viewer or target, in bytes of UTF-8. */
export const MAX_ID = 128;

const utf8 = new TextEncoder();
const strictUtf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Letters, digits, '_' and '-' stand for themselves. */
const plain = /^[A-Za-z0-9_-]+$/;

/** What is wrong with an id; undefined if nothing is. */
export function idFault(id: string): string | undefined {
  if (id === "") return "empty";
  // Half a surrogate pair has no UTF-8; an encoder would put U+FFFD in its place,
  // which is another id.
  if (!id.isWellFormed()) return "half a surrogate pair";
  const { length } = utf8.encode(id);
  return length > MAX_ID ? `${length} bytes, the limit is ${MAX_ID}` : undefined;
}

/** Fails with `invalid_id` unless the id is 1 to 128 bytes of valid UTF-8. */
export function checkId(id: string, what = "id"): void {
  const fault = idFault(id);
  if (fault !== undefined) throw new RollcallError("invalid_id", `${what}: ${fault}`);
}

/**
 * Encodes an id as a token of a subject: as it is if it is plain, otherwise '=' and
 * the unpadded base64url of its bytes.
 */
export function token(id: string): string {
  checkId(id);
  return plain.test(id) ? id : "=" + toBase64url(utf8.encode(id));
}

/** The inverse of {@link token}; fails for what that does not produce. */
export function parseToken(text: string): string {
  const id = plain.test(text) ? text : fromBase64url(text);
  checkId(id);
  // Every id has exactly one token; this refuses the others.
  if (token(id) !== text) throw notAToken(text);
  return id;
}

/** The inbox prefix of a viewer's connection; permissions allow no other. */
export function inboxPrefix(viewer: string): string {
  return "_INBOX.viewer." + token(viewer);
}

function toBase64url(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

function fromBase64url(text: string): string {
  if (!/^=[A-Za-z0-9_-]*$/.test(text)) throw notAToken(text);
  try {
    const binary = atob(text.slice(1).replaceAll("-", "+").replaceAll("_", "/"));
    return strictUtf8.decode(Uint8Array.from(binary, (c) => c.charCodeAt(0)));
  } catch (cause) {
    throw notAToken(text, cause);
  }
}

function notAToken(text: string, cause?: unknown): RollcallError {
  return new RollcallError("invalid_id", `${JSON.stringify(text)} is not a token`, { cause });
}
