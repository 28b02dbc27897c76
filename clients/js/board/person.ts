import type { Api, Config } from "./api.js";
import { h } from "./dom.js";
import type { Me } from "./me.js";
import { legend, timeline } from "./timeline.js";
import { detail, mood, phrase, when } from "./words.js";

/** What is shown of one person. */
export class PersonPanel {
  readonly element = h("section", { class: "person card", "aria-labelledby": "person-name", tabindex: -1, hidden: true });
  readonly #head = h("div", {});
  readonly #history = h("div", { class: "history" });
  readonly #me: Me;
  readonly #api: Api;
  readonly #config: Config;
  readonly #attempt: (work: () => Promise<unknown>) => Promise<void>;
  #id = "";
  #asking = new AbortController();

  constructor(me: Me, api: Api, config: Config, close: () => void, attempt: (work: () => Promise<unknown>) => Promise<void>) {
    this.#me = me;
    this.#api = api;
    this.#config = config;
    this.#attempt = attempt;
    this.element.append(h("button", { class: "back quiet", type: "button", onclick: close }, "← All people"), this.#head, this.#history);
  }

  get id(): string {
    return this.#id;
  }

  open(id: string): void {
    this.#id = id;
    this.element.hidden = false;
    this.refresh();
    void this.#ask();
    this.element.focus({ preventScroll: true });
  }

  close(): void {
    this.#id = "";
    this.#asking.abort();
    this.element.hidden = true;
  }

  /** Shows what is known now. */
  refresh(): void {
    const id = this.#id;
    if (!id) return;
    const state = this.#me.client.states.get(id);
    const focused = this.#head.contains(document.activeElement) ? document.activeElement?.id : undefined;
    const facts: [string, string | undefined][] = state ? [
      ["Says", state.text],
      ["Activity", state.activity],
      ["Since", state.observed_at_minute && when(state.observed_at_minute)],
      ["Last seen", state.last_seen_minute && when(state.last_seen_minute)],
    ] : [];
    this.#head.replaceChildren(
      h("h2", { id: "person-name" }, h("span", { class: "mark", "data-mood": state ? mood(state) : "unknown", "aria-hidden": "true" }), id,
        id === this.#me.user && h("span", { class: "badge" }, "you")),
      h("p", { class: "state" }, state ? [phrase(state), state.reason && detail(state)].filter(Boolean).join(" – ") : "not to be seen: never online, or not for you"),
      h("dl", {}, ...facts.filter(([, value]) => value).flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value!)])),
      ...(id === this.#me.user ? [] : [this.#actions(id)]),
    );
    if (focused) document.getElementById(focused)?.focus();
  }

  #actions(id: string): HTMLElement {
    const me = this.#me;
    const watched = me.watched.has(id);
    const blocked = me.policy?.blocks.includes(id) ?? false;
    const button = (key: string, label: string, title: string, work: () => Promise<unknown>) =>
      h("button", { type: "button", id: `person-${key}`, title, onclick: () => void this.#attempt(work).then(() => this.refresh()) }, label);
    return h("div", { class: "actions" },
      watched
        ? button("watch", "Stop watching", "Show only while online", () => me.unwatch(id))
        : button("watch", "Watch", "Keep in the list also when not online", () => me.watch(id)),
      blocked
        ? button("block", "Unblock", "Be seen again", async () => (me.policy = await me.client.policy.unblock([id])))
        : button("block", "Block", `To ${id} it will look as if you did not exist`, async () => (me.policy = await me.client.policy.block([id]))),
      blocked ? h("p", { class: "hint" }, `To ${id} you do not exist.`) : null);
  }

  /** Asks the ledger, if there is one that answers here. */
  async #ask(): Promise<void> {
    this.#asking.abort();
    this.#history.replaceChildren();
    if (!this.#config.ledger) return;
    const asking = (this.#asking = new AbortController());
    try {
      const days = await this.#api.timeline(this.#id, asking.signal);
      this.#history.replaceChildren(h("h3", {}, `Last days`, h("small", {}, ` in ${days.zone}`)), legend(), timeline(days));
    } catch (err) {
      if (!asking.signal.aborted) this.#history.replaceChildren(h("p", { class: "hint" }, `Online time: ${(err as Error).message}`));
    }
  }
}
