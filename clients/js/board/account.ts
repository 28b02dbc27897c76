import type { Availability } from "../src/index.js";
import { h } from "./dom.js";
import type { Me } from "./me.js";
import { mood, phrase, when } from "./words.js";

const availabilities: [Availability, string][] = [
  ["available", "Available"], ["away", "Away"], ["dnd", "Do not disturb"], ["invisible", "Invisible: others see you offline"],
];

const ends: [string, string][] = [["", "until I change it"], ["30", "for 30 minutes"], ["60", "for an hour"], ["480", "for 8 hours"]];

/** What the user says of itself, whom it blocks, and the way out. */
export function account(me: Me, out: () => void, attempt: (work: () => Promise<unknown>) => Promise<void>): void {
  const popover = document.getElementById("account")!;
  const corner = document.getElementById("me")!;
  corner.hidden = false;

  const show = () => {
    const own = me.client.states.get(me.user);
    corner.replaceChildren(h("span", { class: "mark", "data-mood": own ? mood(own) : "unknown", "aria-hidden": "true" }), h("span", { class: "name" }, me.user),
      h("span", { class: "unseen" }, own ? `, ${phrase(own)}` : ""));
  };

  const fill = () => {
    const status = me.policy?.statuses[0];
    const select = h("select", { id: "availability", name: "availability" },
      ...availabilities.map(([value, label]) => h("option", { value, selected: value === status?.availability }, label)));
    const text = h("input", { id: "text", name: "text", maxlength: 128, autocomplete: "off", value: status?.text ?? "" });
    const until = h("select", { id: "until", name: "until" }, ...ends.map(([value, label]) => h("option", { value }, label)));
    const set = async () => {
      const availability = select.value as Availability;
      const minutes = Number(until.value);
      me.policy = availability === "available" && text.value === ""
        ? await me.client.policy.clear()
        : await me.client.policy.status({ availability, ...(text.value && { text: text.value }), ...(minutes > 0 && { until: Date.now() + minutes * 60_000 }) });
    };
    const form = h("form", { onsubmit: (event: SubmitEvent) => (event.preventDefault(), void attempt(set).then(fill)) },
      h("label", { for: "availability" }, "I am"), select, h("label", { for: "text" }, "and say"), text, h("label", { for: "until" }, "This holds"), until,
      h("div", { class: "actions" }, h("button", { class: "primary" }, "Set")));
    const blocks = me.policy?.blocks ?? [];
    popover.replaceChildren(
      h("h2", {}, me.user),
      h("p", { class: "hint" }, deviceText(me)),
      form,
      status?.until ? h("p", { class: "hint" }, `Until ${when(status.until.getTime())}.`) : "",
      h("h3", {}, "Blocked"),
      blocks.length === 0 ? h("p", { class: "hint" }, "Nobody.") : h("ul", { class: "blocks" }, ...blocks.map((id) =>
        h("li", {}, h("span", {}, id), h("button", { type: "button", class: "quiet", "aria-label": `Unblock ${id}`, onclick: () => void attempt(async () => (me.policy = await me.client.policy.unblock([id]))).then(fill) }, "Unblock")))),
      h("div", { class: "actions" }, h("button", { type: "button", class: "quiet", onclick: out }, "Sign out")),
    );
  };

  popover.addEventListener("beforetoggle", (event) => (event as ToggleEvent).newState === "open" && fill(), { signal: me.ended });
  me.on((change) => change.target === me.user && show());
  show();
}

const phases: Record<string, string> = {
  connecting: "This browser connects to the gateway.", refused: "The gateway does not let this browser in.",
  superseded: "Your device is connected elsewhere.", closed: "This browser is no device of yours any more.",
};

function deviceText({ device }: Me): string {
  if (!device) return "This page looks only: it is no device of yours.";
  const { phase, active, foreground, leading, error } = device.status;
  if (phase !== "connected") return [phases[phase], error?.message].filter(Boolean).join(" ");
  const state = active ? "active" : foreground ? "idle" : "in the background";
  return `This browser is a device of yours, ${state}${leading ? "" : "; another tab speaks for it"}.`;
}
