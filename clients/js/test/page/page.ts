// A list of contacts, what the viewer says of itself, and whom it blocks. Its address says where to connect, as whom, and whom to show:
// ?server=ws://…&viewer=vera&target=ann&target=bob&token=…, the text of a credentials
// file. Of several tokens each is used for one connection, the last for all others. In an
// application the token comes from its backend and never stands in an address.
import { Client, type Availability, type Policy, type State } from "../../src/index.js";

const query = new URLSearchParams(location.search);
const viewer = query.get("viewer") ?? "";
const targets = query.getAll("target");
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

/** Shows the own policy as it is now, with what changes it. */
function showPolicy(client: Client, policy: Policy): void {
  element("blocks").replaceChildren(
    ...targets.map((target) => {
      const blocked = policy.blocks.includes(target);
      const change = () => (blocked ? client.policy.unblock([target]) : client.policy.block([target]));
      return button(`${blocked ? "Unblock" : "Block"} ${target}`, () => amend(client, change()));
    }),
  );
}

function button(label: string, press: () => Promise<void>): HTMLButtonElement {
  const made = document.createElement("button");
  made.textContent = label;
  made.addEventListener("click", () => void press());
  return made;
}

async function amend(client: Client, change: Promise<Policy>): Promise<void> {
  try {
    showPolicy(client, await change);
    element("problem").textContent = "";
  } catch (err) {
    element("problem").textContent = String(err);
  }
}

function setStatus(client: Client, form: HTMLFormElement): Promise<Policy> {
  const fields = new FormData(form);
  const availability = fields.get("availability") as Availability;
  const text = String(fields.get("text"));
  if (availability === "available" && text === "") return client.policy.clear();
  return client.policy.status({ availability, text });
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
  await client.subscribe(targets);
  const form = element("status") as HTMLFormElement;
  form.addEventListener("submit", (event) => {
    event.preventDefault(); // which would load the page again
    void amend(client, setStatus(client, form));
  });
  showPolicy(client, await client.policy.get());
  element("contacts").dataset["ready"] = "true";
} catch (err) {
  element("problem").textContent = String(err);
}
