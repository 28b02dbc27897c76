// What the pages show with React, with a client and a device of the user that the address says.
import { Client } from "@rollcall/client";
import { Device } from "@rollcall/client/device";
import { createRoot } from "react-dom/client";
import { App } from "../react/snippets.jsx";

const query = new URLSearchParams(location.search);
const user = query.get("user") ?? "";
const client = await Client.connect({ viewer: user, servers: query.get("server") ?? "", token: query.get("credentials") ?? "" });
const device = Device.start({ url: location.origin, user, token: query.get("token") ?? "" });
createRoot(document.body).render(<App client={client} device={device} ids={query.getAll("target")} />);
