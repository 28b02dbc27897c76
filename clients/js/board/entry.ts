import type { Api, Config } from "./api.js";
import { h } from "./dom.js";
import { signIn, signInAtApplication, signInWith, type Me } from "./me.js";

/** The ways in that the board offers here. */
export function entry(api: Api, config: Config, enter: (me: Me) => void, attempt: (work: () => Promise<unknown>) => Promise<void>): HTMLElement {
  const busy = (form: HTMLFormElement, work: () => Promise<Me>) => {
    const button = form.querySelector("button")!;
    button.disabled = true;
    void attempt(async () => enter(await work())).finally(() => (button.disabled = false));
  };
  const ways: HTMLElement[] = [];
  if (!config.websocket) {
    ways.push(h("p", { class: "notice warn" }, "There is no WebSocket of NATS here, by which this page would look."));
  } else if (config.development) {
    const user = h("input", { id: "user", name: "user", required: true, autocomplete: "off", autocapitalize: "off", spellcheck: "false", autofocus: true });
    const form = h("form", { onsubmit: (event: SubmitEvent) => (event.preventDefault(), busy(form, () => signIn(api, config, user.value.trim()))) },
      h("label", { for: "user" }, "Sign in as"), h("div", { class: "line" }, user, h("button", { class: "primary" }, "Sign in")),
      h("p", { class: "hint" }, h("strong", {}, "For development: "), "any name will do, nobody is asked for a password. It works on this machine only; ", h("code", {}, "--no-sign-in"), " switches it off."));
    ways.push(form);
  } else if (config.sign_in_url) {
    const form = h("form", { onsubmit: (event: SubmitEvent) => (event.preventDefault(), busy(form, () => signInAtApplication(api, config))) },
      h("button", { class: "primary" }, `Sign in with ${new URL(config.sign_in_url, location.href).host}`));
    ways.push(form);
  } else {
    const token = h("textarea", { id: "token", name: "token", rows: 5, required: true, spellcheck: "false", autocomplete: "off" });
    const form = h("form", { onsubmit: (event: SubmitEvent) => (event.preventDefault(), busy(form, async () => signInWith(config, token.value))) },
      h("label", { for: "token" }, "Credential of a viewer"), token,
      h("p", { class: "hint" }, "As ", h("code", {}, "rollcall token viewer --user NAME"), " prints it. It stays in this page."),
      h("button", { class: "primary" }, "Sign in"));
    ways.push(form);
  }
  return h("div", { class: "entry" }, h("section", { class: "card", "aria-labelledby": "entry-title" },
    h("h2", { id: "entry-title" }, "Who is online?"), h("p", {}, "You see of others what they let you know, as in your application."), ...ways));
}

/** Asks for the operator's token. */
export function operatorEntry(api: Api, retry: () => void): HTMLElement {
  const token = h("input", { id: "operator", type: "password", required: true, autocomplete: "off" });
  return h("form", { class: "card entry", onsubmit: (event: SubmitEvent) => {
    event.preventDefault();
    api.unlock(token.value.trim());
    retry();
  } }, h("h2", {}, "For operators"), h("label", { for: "operator" }, "Operator's token"), h("div", { class: "line" }, token, h("button", { class: "primary" }, "Show")));
}
