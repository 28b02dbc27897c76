// What the pages show with React; see ../snippets.ts. In Chromium ../page/snippets.tsx runs it.
import { RollcallProvider, useDevice, usePresence } from "@rollcall/client/react";

export { App, Contacts, Me };

/** @param {{ id: string, status: string | undefined }} props */
function Contact({ id, status }) {
  return <b>{`${id} ${status ?? "not known"}`}</b>;
}

/** @param {{ ids: string[] }} props */
function Contacts({ ids }) {
  const { states, ready, error } = usePresence(ids); // watched while the component is there
  if (error) return <p role="alert">{error.message}</p>;
  if (!ready) return <p>one moment</p>;
  return ids.map((id) => <Contact key={id} id={id} status={states.get(id)?.status} />);
}

function Me() {
  const { phase, active } = useDevice();
  return <p>{phase === "connected" ? (active ? "active" : "idle") : phase}</p>;
}

/** @param {import("@rollcall/client/react").Rollcall & { ids: string[] }} props */
function App({ client, device, ids }) {
  return (
    <RollcallProvider client={client} device={device}>
      <Me />
      <Contacts ids={ids} />
    </RollcallProvider>
  );
}
