import { MAX_TARGETS } from "./contract.js";
import { RollcallError } from "./errors.js";
import { checkId } from "./token.js";

/**
 * How many targets one request names: request and answer stay below the message limit
 * of a server that nobody has configured.
 */
const CHUNK = 1000;

/** Refuses what the fanout would refuse. */
export function checkTargets(targets: readonly string[]): void {
  if (targets.length === 0) throw new RollcallError("no_targets", "name at least one target");
  if (targets.length > MAX_TARGETS) throw tooMany(`${targets.length} targets`);
  for (const [i, t] of targets.entries()) checkId(t, `target ${i}`);
}

export function tooMany(what: string): RollcallError {
  return new RollcallError("too_many_targets", `${what}, the limit is ${MAX_TARGETS}`);
}

/** Splits targets into requests. */
export function* chunks(targets: readonly string[]): Generator<readonly string[]> {
  for (let i = 0; i < targets.length; i += CHUNK) yield targets.slice(i, i + CHUNK);
}

/**
 * Asks for the targets in ever smaller parts while the answer is too large for the
 * server.
 */
export async function halving(
  targets: readonly string[],
  ask: (part: readonly string[]) => Promise<void>,
): Promise<void> {
  try {
    await ask(targets);
  } catch (err) {
    if (targets.length < 2 || !(err instanceof RollcallError && err.code === "too_large")) throw err;
    const half = targets.length >> 1;
    await halving(targets.slice(0, half), ask);
    await halving(targets.slice(half), ask);
  }
}
