// A list of contacts. Its address says where to connect, as whom, and whom to show:
// ?server=ws://…&viewer=vera&target=ann&target=bob&token=…, the text of a credentials
// file. Of several tokens each is used for one connection, the last for all others. In an
// application the token comes from its backend and never stands in an address.
import { Client, type State } from "../../src/index.js";

const query = new URLSearchParams(location.search);
const viewer = query.get("viewer") ?? "";
const tokens = query.getAll("token");

function element(id: string): HTMLElement {
  const found = document.getElementById(id);
  if (!found) throw new Error(`no element ${id}`);
  return found;
}

function words(s: State): string {
  return [s.target, s.availability ?? s.state ?? s.status, s.text, s.reason].filter(Boolean).join(" · ");
}

function item(s: State): HTMLElement {
  const li = document.createElement("li");
  li.textContent = words(s);
  Object.assign(li.dataset, { target: s.target, status: s.status, ...(s.availability && { availability: s.availability }) });
  return li;
}

function show(client: Client): void {
  const sorted = [...client.states.values()].sort((a, b) => a.target.localeCompare(b.target));
  element("contacts").replaceChildren(...sorted.map(item));
}

try {
  element("viewer").textContent = viewer;
  const client = await Client.connect({
    viewer,
    servers: query.getAll("server"),
    ...(tokens.length > 0 && { token: () => (tokens.length > 1 ? tokens.shift() : tokens[0]) ?? "" }),
    outage: Number(query.get("outage") ?? 15_000),
    logger: console,
  });
  client.on(() => show(client));
  await client.subscribe(query.getAll("target"));
  element("contacts").dataset["ready"] = "true";
} catch (err) {
  element("problem").textContent = String(err);
}
