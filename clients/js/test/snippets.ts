// What the pages show in JavaScript are pieces of the functions below, line by line:
// TestJavaScriptOfPages of cmd/rollcall looks for them here, `npm run check` holds them
// against the types, and snippets.test.ts runs each.
import { readFileSync } from "node:fs";
import { connect, credsAuthenticator, type NatsConnection } from "@nats-io/transport-node"; // npm install @nats-io/transport-node
import { Client, inboxPrefix, type Change, type Policy, type Token } from "@rollcall/client";
import { Device } from "@rollcall/client/device";

export async function watchAndBlock(token: Token, show: (target: string, status: Change["status"], reason?: string) => void): Promise<Client> {
  const client = await Client.connect({ viewer: "alice", servers: "wss://presence.example.org", token });
  await client.subscribe(["bob", "carol"]);
  client.on((change) => show(change.target, change.status, change.reason));
  await client.policy.block(["mallory"]);
  return client;
}

export async function connectByToken(token: Token): Promise<Client> {
  const client = await Client.connect({
    viewer: "alice",
    servers: "wss://presence.example.org",
    token, // what `rollcall token viewer --user alice` prints, or as an object what it prints with --json
  });
  return client;
}

export async function connectByConnection(servers: string): Promise<{ client: Client; connection: NatsConnection }> {
  const authenticator = credsAuthenticator(readFileSync("alice.creds")); // rollcall token viewer --user alice --out alice.creds
  const connection = await connect({ servers, authenticator, maxReconnectAttempts: -1, inboxPrefix: inboxPrefix("alice") });
  const client = await Client.connect({ viewer: "alice", connection });
  return { client, connection };
}

export async function watch(client: Client, show: (change: Change) => void): Promise<void> {
  await client.subscribe(["bob", "carol"]); // resolves when both are answered
  client.states.get("bob"); // { target, status, version, … } or undefined
  await client.get(["dave"]); // a Map of states, once

  const off = client.on((change) => show(change)); // off() ends it
  await client.unsubscribe(["carol"]);
  for await (const change of client.changes()) show(change); // until somebody calls client.close()
  off();
}

export async function sayOfOneself(client: Client): Promise<Pick<Policy, "blocks" | "statuses">> {
  const { policy } = client;
  await policy.status({ availability: "dnd", text: "in a meeting", priority: 10, until: Date.now() + 3_600_000 });
  await policy.clear(10); // ends it before; without a priority, all of them
  await policy.block(["mallory"]);
  await policy.set({ everyone: "coarse", member: "default" });
  const { blocks, statuses } = await policy.get();
  return { blocks, statuses };
}

export async function beDevice(show: (phase: string) => void, callEnded: Promise<void>): Promise<void> {
  const device = Device.start({
    url: "https://presence.example.org", // a gateway: `rollcall gateway`, or `rollcall up`
    user: "alice",
    token: () => fetch("/presence-token").then((r) => r.text()), // a JWT of your backend with the subject alice
  });
  device.on((status) => show(status.phase)); // off = device.on(…); off() ends it
  device.activity = "in a call"; // a label for reports of online time; undefined takes it back
  await callEnded;
  await device.close(); // goodbye; { logout: true } logs out
}
