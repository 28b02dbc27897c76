import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test, type TestContext } from "node:test";
import WebSocket from "ws";
import type { Client } from "@rollcall/client";
import { Fabric } from "./fabric.js";
import * as snippets from "./snippets.js";
import { eventually, watch } from "./watcher.js";

let fabric: Fabric;
before(async () => {
  fabric = await Fabric.start("-page", tmpdir());
  const { websocket, page } = fabric.addresses;
  const { fetch } = globalThis;
  // What the pages call presence.example.org is the fabric, and their origin has a backend.
  Object.assign(globalThis, {
    WebSocket: class extends WebSocket {
      constructor(url: string) {
        const path = url.replace("wss://presence.example.org", "");
        super(path.startsWith("/api/") ? page.replace("http", "ws") + path : websocket);
      }
    },
    fetch: async (url: string, init?: RequestInit) =>
      url === "/presence-token" ? new Response(await fabric.bearer("alice")) : fetch(url.replace("https://presence.example.org", page), init),
  });
});
after(() => fabric.stop());

/** What the backend mints for alice. */
const minted = async (): Promise<string> => (await fabric.token("viewer", "alice")).file;

/** Closes the client after the test. */
function closed(t: TestContext, client: Client): Client {
  t.after(() => client.close());
  return client;
}

const connected = async (t: TestContext): Promise<Client> => closed(t, await snippets.connectByToken(await minted()));

// A test of each piece; one that is missing is refused by the types.
const runs: { readonly [name in keyof typeof snippets]: (t: TestContext) => Promise<void> } = {
  async watchAndBlock(t) {
    const shown: string[] = [];
    const client = closed(t, await snippets.watchAndBlock(await minted(), (...change) => shown.push(change.slice(0, 2).join(" "))));
    await fabric.do("connect", "carol", "phone");
    await eventually(() => assert.deepEqual(shown, ["carol online"]));
    assert.deepEqual((await client.policy.get()).blocks, ["mallory"]);
  },

  async connectByToken(t) {
    await fabric.do("connect", "dave", "phone");
    const client = await connected(t);
    await client.subscribe(["dave"]);
    await eventually(() => assert.equal(client.states.get("dave")?.status, "online"));
  },

  async connectByConnection(t) {
    const [here, dir] = [process.cwd(), mkdtempSync(join(tmpdir(), "rollcall-"))];
    t.after(() => rmSync(dir, { recursive: true }));
    writeFileSync(join(dir, "alice.creds"), await minted());
    process.chdir(dir);
    t.after(() => process.chdir(here));
    const { client, connection } = await snippets.connectByConnection(fabric.addresses.nats);
    await client.get(["bob"]);
    await client.close();
    assert.equal(connection.isClosed(), false);
    await connection.close();
  },

  async watch(t) {
    const client = await connected(t);
    await fabric.do("connect", "bob", "phone");
    const read = client.changes.bind(client);
    t.mock.method(client, "changes", () => {
      void fabric.do("close", "bob", "phone");
      return read();
    });
    const shown: string[] = [];
    await snippets.watch(client, (change) => {
      shown.push(`${change.target} ${change.status}`);
      // Told twice, to the listener and to the reader.
      if (shown.filter((s) => s === "bob offline").length === 2) void client.close();
    });
    assert.equal(shown.at(-1), "bob offline");
  },

  async sayOfOneself(t) {
    const { blocks, statuses } = await snippets.sayOfOneself(await connected(t));
    assert.deepEqual({ blocks, statuses }, { blocks: ["mallory"], statuses: [] });
  },

  async beDevice(t) {
    const watcher = await watch(fabric, { viewer: "alice" }); // to whom nothing is coarse
    t.after(() => watcher.close());
    await watcher.client.subscribe(["alice"]);
    let endCall = () => {};
    const phases: string[] = [];
    const was = snippets.beDevice((phase) => phases.push(phase), new Promise((resolve) => (endCall = resolve)));
    await eventually(() => assert.equal(watcher.client.states.get("alice")?.activity, "in a call"));
    endCall();
    await was;
    await watcher.expect({ alice: "offline" });
    assert.deepEqual([...new Set(phases)], ["connecting", "connected", "closed"]);
  },
};

for (const [name, run] of Object.entries(runs)) test(`what the pages show works: ${name}`, run);
