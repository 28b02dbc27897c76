import { account } from "./account.js";
import { Api, Refusal, type Config, type Figures } from "./api.js";
import { DaysView } from "./days.js";
import { byId, h, say } from "./dom.js";
import { entry, operatorEntry } from "./entry.js";
import { FabricView } from "./fabric.js";
import { signIn, signInAtApplication, type Me } from "./me.js";
import { PeopleView } from "./people.js";
import { themeButton } from "./theme.js";

/** In which this tab stays signed in; other tabs may be others. */
const kept = "rollcall.user";

type View = "people" | "fabric" | "time";

/** The page: one view of three, and who looks. */
class Page {
  readonly #api = new Api();
  readonly #config: Config;
  readonly #fabric = new FabricView();
  readonly #days = new DaysView();
  #me: Me | undefined;
  #people: PeopleView | undefined;
  #watching: AbortController | undefined; // figures
  #locked = false; // for want of an operator's token

  constructor(config: Config) {
    this.#config = config;
    addEventListener("hashchange", () => this.#show(true));
    if (!config.ledger) document.querySelector('.views a[href="#time"]')?.remove();
  }

  async begin(): Promise<void> {
    const user = sessionStorage.getItem(kept);
    if (user && this.#config.development) await this.#attempt(async () => this.#enter(await signIn(this.#api, this.#config, user)));
    else if (user && this.#config.sign_in_url) await this.#attempt(async () => this.#enter(await signInAtApplication(this.#api, this.#config)));
    this.#show(false);
  }

  get #view(): View {
    const name = location.hash.slice(1);
    return name === "fabric" || (name === "time" && this.#config.ledger) ? name : "people";
  }

  #show(moved: boolean): void {
    const view = this.#view;
    for (const link of document.querySelectorAll(".views a")) {
      if (link.getAttribute("href") === `#${view}`) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    const main = byId("main");
    main.dataset["view"] = view;
    if (view === "people") {
      this.#rest();
      main.replaceChildren(this.#people?.element ?? entry(this.#api, this.#config, (me) => (this.#enter(me), this.#show(false)), (work) => this.#attempt(work)));
      this.#people?.refresh();
    } else if (this.#locked) {
      main.replaceChildren(operatorEntry(this.#api, () => ((this.#locked = false), this.#show(false))));
    } else {
      main.replaceChildren(view === "fabric" ? this.#fabric.element : this.#days.element);
      this.#watch();
      if (view === "time") void this.#api.days().then((days) => this.#days.show(days), (err: Error) => this.#days.trouble(err.message));
    }
    document.title = `Rollcall – ${document.querySelector('.views a[aria-current="page"]')?.textContent ?? ""}`;
    if (moved) main.focus({ preventScroll: true });
  }

  /** Follows the figures while they are looked at. */
  #watch(): void {
    if (this.#watching) return;
    this.#watching = new AbortController();
    void this.#api.follow("board/figures", this.#watching.signal, (event, data) => {
      if (event === "trouble") this.#fabric.trouble(String(data));
      else {
        this.#fabric.show(data as Figures);
        this.#days.showToday(data as Figures);
      }
    }, (err) => {
      if (err instanceof Refusal && err.status === 401) {
        this.#rest();
        this.#locked = true;
        this.#show(false);
      } else this.#fabric.trouble((err as Error).message);
    });
  }

  #rest(): void {
    this.#watching?.abort();
    this.#watching = undefined;
  }

  #enter(me: Me): void {
    this.#me = me;
    sessionStorage.setItem(kept, me.user);
    this.#people = new PeopleView(me, this.#api, this.#config, (text) => say(byId("announce"), text), (work) => this.#attempt(work));
    account(me, () => void this.#leave(), (work) => this.#attempt(work));
    void me.client.closed.then((reason) => reason && (this.#problem(`Signed out: ${reason.message}`), void this.#leave()));
  }

  async #leave(): Promise<void> {
    const me = this.#me;
    this.#me = this.#people = undefined;
    sessionStorage.removeItem(kept);
    byId("account").hidePopover();
    byId("me").hidden = true;
    this.#show(false);
    await me?.close();
  }

  /** Does something for the user; what goes wrong is said. */
  async #attempt(work: () => Promise<unknown>): Promise<void> {
    this.#problem("");
    try {
      await work();
    } catch (err) {
      this.#problem((err as Error).message);
    }
  }

  #problem(text: string): void {
    const problem = byId("problem");
    problem.replaceChildren(...(text ? [h("span", {}, text), h("button", { type: "button", class: "quiet", "aria-label": "Dismiss", onclick: () => this.#problem("") }, "×")] : []));
  }
}

themeButton(byId("theme"));
new Api().config().then((config) => new Page(config).begin(), (err: Error) => say(byId("problem"), `The board does not answer: ${err.message}`));
