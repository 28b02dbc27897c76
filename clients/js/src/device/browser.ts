import { after } from "../time.js";
import { SteadyClock } from "./clock.js";
import type { Channel, Happening, Host, Shelf } from "./host.js";

/** How often, in ms, use of a page is told at most; a mouse moves a hundred times a second. */
const INPUT = 1_000;

const inputs = ["pointerdown", "pointermove", "keydown", "wheel", "touchstart", "scroll"];

/** The browser, or what of one there is. */
export function browser(): Host {
  const clock = new SteadyClock(() => Date.now(), () => performance.now());
  const now = () => clock.now();
  return {
    now,
    wall: () => Date.now(),
    after,
    random: Math.random,
    name,
    socket: typeof WebSocket === "undefined" ? undefined : (url) => new WebSocket(url),
    fetch: (...call) => fetch(...call),
    beacon: (url, body) => typeof navigator !== "undefined" && "sendBeacon" in navigator && navigator.sendBeacon(url, body),
    shelf: shelf(),
    locks: typeof navigator === "undefined" ? undefined : (navigator as Partial<Navigator>).locks,
    channel: typeof BroadcastChannel === "undefined" ? undefined : channel,
    shown: () => typeof document !== "undefined" && document.visibilityState === "visible",
    online: () => typeof navigator === "undefined" || navigator.onLine !== false,
    listen: (listener) => (typeof document === "undefined" ? () => {} : listen(listener, now)),
  };
}

/** crypto.randomUUID is missing in pages that came without TLS. */
function name(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function shelf(): Shelf | undefined {
  let storage: Storage;
  try {
    storage = localStorage; // which throws where it is forbidden
    storage.setItem("rollcall", "");
    storage.removeItem("rollcall");
  } catch {
    return undefined;
  }
  return {
    get: (key) => storage.getItem(key) ?? undefined,
    set: (key, value) => storage.setItem(key, value),
    remove: (key) => storage.removeItem(key),
    watch(key, changed) {
      const heard = (e: StorageEvent) => {
        if (e.key === key || e.key === null) changed();
      };
      addEventListener("storage", heard);
      return () => removeEventListener("storage", heard);
    },
  };
}

function channel(name: string): Channel {
  const c = new BroadcastChannel(name);
  return {
    say: (message) => c.postMessage(message),
    hear: (listener) => (c.onmessage = (e) => listener(e.data)),
    close: () => c.close(),
  };
}

function listen(listener: (what: Happening) => void, now: () => number): () => void {
  const off = new AbortController();
  const { signal } = off;
  const on = (target: EventTarget, type: string, what: (event: Event) => Happening | undefined) =>
    target.addEventListener(
      type,
      (event) => {
        const happened = what(event);
        if (happened) listener(happened);
      },
      { signal, passive: true, capture: true },
    );
  on(document, "visibilitychange", () => (document.visibilityState === "visible" ? "shown" : "hidden"));
  on(document, "freeze", () => "frozen");
  on(document, "resume", () => "woken");
  on(window, "pagehide", () => "left");
  on(window, "pageshow", (event) => ((event as PageTransitionEvent).persisted ? "woken" : undefined));
  on(window, "online", () => "online");
  on(window, "offline", () => "offline");
  let told = -Infinity;
  for (const type of inputs) {
    on(window, type, () => {
      if (now() - told < INPUT) return undefined;
      told = now();
      return "input";
    });
  }
  return () => off.abort();
}
