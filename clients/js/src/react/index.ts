import { createContext, createElement, useContext, useMemo, useSyncExternalStore, type ReactElement, type ReactNode } from "react";
import type { Client } from "../client.js";
import type { Device } from "../device/device.js";
import type { DeviceStatus } from "../device/status.js";
import { PresenceStore, nothing, type Presence } from "./presence.js";

export type { Presence } from "./presence.js";
export type { DeviceStatus } from "../device/status.js";
export type { State } from "../state.js";

/** What the hooks work with. Both may come later than the page, as a client does that connects. */
export interface Rollcall {
  readonly client?: Client | undefined;
  readonly device?: Device | undefined;
}

const Context = createContext<Rollcall | undefined>(undefined);

/** Gives the hooks below it their client and device, which stay the application's: it closes them. */
export function RollcallProvider({ client, device, children }: Rollcall & { readonly children?: ReactNode }): ReactElement {
  const value = useMemo(() => ({ client, device }), [client, device]);
  return createElement(Context.Provider, { value }, children);
}

/** The client and the device of the provider above. */
export function useRollcall(): Rollcall {
  const found = useContext(Context);
  if (!found) throw new Error("there is no RollcallProvider above this component");
  return found;
}

const idle = () => () => {};

/**
 * Watches the targets while the component is there, and renders it again when one of
 * them is shown differently. The list may be a new one in every render.
 */
export function usePresence(targets: readonly string[]): Presence {
  const { client } = useRollcall();
  const key = JSON.stringify(targets);
  const store = useMemo(() => client && new PresenceStore(client, [...new Set(JSON.parse(key) as string[])]), [client, key]);
  return useSyncExternalStore(store?.subscribe ?? idle, store?.snapshot ?? (() => nothing), () => nothing);
}

const starting: DeviceStatus = { phase: "connecting", foreground: false, active: false, leading: false };

/** How the device is doing; renders again when that changes. */
export function useDevice(): DeviceStatus {
  const { device } = useRollcall();
  const store = useMemo(() => ({ subscribe: device ? device.on.bind(device) : idle, snapshot: () => device?.status ?? starting }), [device]);
  return useSyncExternalStore(store.subscribe, store.snapshot, () => starting);
}
