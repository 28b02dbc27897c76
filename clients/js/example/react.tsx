// A list of contacts, and the page as a device of the one who looks, with React. Its address
// says who that is, and where to connect:
// ?url=https://…&server=wss://…&user=ann&target=bob&target=carol&token=…&credentials=…
import { Client } from "@rollcall/client";
import { Device } from "@rollcall/client/device";
import { RollcallProvider, useDevice, usePresence } from "@rollcall/client/react";
import { StrictMode, useEffect, useState, type ReactElement } from "react";
import { createRoot } from "react-dom/client";

const query = new URLSearchParams(location.search);
const user = query.get("user") ?? "ann";

function Me(): ReactElement {
  const { phase, foreground, active, error } = useDevice();
  return (
    <p id="me" data-phase={phase}>
      {user}: {error?.message ?? (phase === "connected" ? (active ? "active" : foreground ? "idle" : "in the background") : phase)}
    </p>
  );
}

function Contacts({ targets }: { readonly targets: readonly string[] }): ReactElement {
  const { states, ready, error } = usePresence(targets);
  if (error) return <p role="alert">{error.message}</p>;
  if (!ready) return <p>…</p>;
  return (
    <ul>
      {targets.map((target) => {
        const state = states.get(target);
        return (
          <li key={target} data-target={target} data-status={state?.status}>
            {target} {state?.state ?? state?.status}
          </li>
        );
      })}
    </ul>
  );
}

function Page(): ReactElement {
  const [client, setClient] = useState<Client>();
  const [device, setDevice] = useState<Device>();
  const [shown, setShown] = useState(true);
  useEffect(() => {
    const made = Device.start({ url: query.get("url") ?? location.origin, user, token: query.get("token") ?? "" });
    setDevice(made);
    return () => void made.close();
  }, []);
  useEffect(() => {
    const credentials = query.get("credentials");
    const connecting = Client.connect({ viewer: user, servers: query.getAll("server"), ...(credentials !== null && { token: credentials }) });
    connecting.then(setClient, console.error);
    return () => void connecting.then((made) => made.close(), () => {});
  }, []);
  return (
    <RollcallProvider client={client} device={device}>
      <Me />
      <button onClick={() => setShown(!shown)}>{shown ? "Hide" : "Show"} contacts</button>
      {shown && <Contacts targets={query.getAll("target")} />}
    </RollcallProvider>
  );
}

createRoot(document.getElementById("root")!).render(
  <StrictMode>
    <Page />
  </StrictMode>,
);
