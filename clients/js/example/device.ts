// A page that makes its browser a device: open it in several tabs, and close the one that
// leads. Its address says where the gateway is and whose device it shall be:
// ?url=https://…&user=ann&token=…, and transport=http to do without WebSocket. In an application the token comes from its backend and
// never stands in an address.
import { Device, type DeviceStatus, type Transport } from "@rollcall/client/device";

const query = new URLSearchParams(location.search);

function element<E extends HTMLElement>(id: string): E {
  const found = document.getElementById(id);
  if (!found) throw new Error(`no element ${id}`);
  return found as E;
}

function show(status: DeviceStatus): void {
  const { error, ...shown } = status;
  const terms = Object.entries(shown).flatMap(([name, value]) => {
    const [term, definition] = [document.createElement("dt"), document.createElement("dd")];
    [term.textContent, definition.textContent] = [name, String(value)];
    return [term, definition];
  });
  element("status").replaceChildren(...terms);
  Object.assign(document.documentElement.dataset, { phase: status.phase, leading: String(status.leading) });
  element("problem").textContent = error?.message ?? "";
}

const device = Device.start({
  url: query.get("url") ?? location.origin,
  user: query.get("user") ?? "ann",
  token: query.get("token") ?? "",
  transport: (query.get("transport") ?? "auto") as Transport | "auto",
  logger: console,
});
element("user").textContent = query.get("user") ?? "ann";
device.on(show);
show(device.status);
element<HTMLInputElement>("activity").addEventListener("change", (event) => {
  device.activity = (event.target as HTMLInputElement).value || undefined;
});
element("open").addEventListener("click", () => device.open());
element("logout").addEventListener("click", () => void device.close({ logout: true }));
