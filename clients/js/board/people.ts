import type { Api, Config, People } from "./api.js";
import { h, say } from "./dom.js";
import { List } from "./list.js";
import type { Me } from "./me.js";
import { PersonPanel } from "./person.js";
import { counted, phrase } from "./words.js";

/** Who is there, and one of them. */
export class PeopleView {
  readonly element: HTMLElement;
  readonly #me: Me;
  readonly #list: List;
  readonly #panel: PersonPanel;
  readonly #summary = h("p", { class: "hint", id: "summary" });
  readonly #empty = h("p", { class: "empty" });
  readonly #announce: (text: string) => void;
  #waiting = false;
  #online = 0; // as operators are told
  #came = 0;
  #left = 0;
  #began = false;

  constructor(me: Me, api: Api, config: Config, announce: (text: string) => void, attempt: (work: () => Promise<unknown>) => Promise<void>) {
    this.#me = me;
    this.#announce = announce;
    this.#list = new List("People", me.user, (person) => this.#open(person.id));
    this.#panel = new PersonPanel(me, api, config, () => this.#close(), attempt);
    const search = h("input", { type: "search", id: "search", placeholder: "Search", "aria-label": "Search people", autocomplete: "off", spellcheck: "false" });
    search.addEventListener("input", () => {
      me.roster.search(search.value);
      this.refresh();
      this.#tellFound();
    });
    const name = h("input", { id: "watch", "aria-label": "Watch by name", placeholder: "Watch by name", autocomplete: "off", spellcheck: "false" });
    const form = h("form", { class: "watch", onsubmit: (event: SubmitEvent) => {
      event.preventDefault();
      const id = name.value.trim();
      if (id) void attempt(() => me.watch(id)).then(() => (this.refresh(), this.#open(id), (name.value = "")));
    } }, name, h("button", {}, "Watch"));
    this.element = h("div", { class: "people" },
      h("section", { class: "roster card", "aria-labelledby": "people-title" },
        h("div", { class: "bar" }, h("h2", { id: "people-title" }, "People"), this.#summary), search, this.#list.element, this.#empty, form),
      hints(config), this.#panel.element);
    me.on((change) => {
      if (change.target !== me.user && change.status === "online") this.#came++;
      if (change.status === "offline" || change.status === "withdrawn") this.#left++;
      this.refresh();
    });
    const settling = setInterval(() => void me.settle().then((any) => any && this.refresh()).catch(() => {}), 5_000);
    const telling = setInterval(() => this.#tell(), 5_000);
    me.ended.addEventListener("abort", () => (clearInterval(settling), clearInterval(telling)));
    void this.#follow(api);
    this.refresh();
  }

  /** Hears who is online, where this page is an operator's. */
  async #follow(api: Api): Promise<void> {
    while (!this.#me.ended.aborted) {
      await this.#hear(api);
      await api.unlocked(); // it is for operators, and this page may become one's
    }
  }

  #hear(api: Api): Promise<void> {
    let first = true;
    return api.follow("board/people", this.#me.ended, (_, data) => {
      const people = data as People;
      this.#online = people.online;
      const work = first ? this.#me.restart(people) : this.#me.follow(people);
      first = false;
      void work.then(() => {
        this.#began = true;
        this.refresh();
      }, () => {});
    }, () => (first = true));
  }

  refresh(): void {
    if (this.#waiting) return;
    this.#waiting = true;
    requestAnimationFrame(() => {
      this.#waiting = false;
      const shown = this.#me.roster.shown;
      this.#list.show(shown);
      this.#panel.refresh();
      const online = this.#me.roster.online;
      say(this.#summary, this.#online > online + 1 && this.#began ? `${counted(online, "online", "online")} for you` : counted(online, "online", "online"));
      this.#empty.hidden = shown.length > 0;
      say(this.#empty, "Nobody is to be seen here. People come when they are online, or when you watch them by name.");
      this.element.dataset["ready"] = String(this.#began);
    });
  }

  #open(id: string): void {
    this.#list.choose(id);
    this.element.classList.add("opened");
    this.#panel.open(id);
  }

  #close(): void {
    this.element.classList.remove("opened");
    this.#panel.close();
    this.#list.choose("");
    this.#list.element.focus();
  }

  #tellFound(): void {
    this.#announce(`${counted(this.#me.roster.shown.length, "person", "people")} found`);
  }

  /** Tells who cannot see it what has moved; not more often than can be listened to. */
  #tell(): void {
    if (this.#came + this.#left === 0) return;
    const open = this.#panel.id && this.#me.client.states.get(this.#panel.id);
    const parts = [this.#came > 0 && `${this.#came} came`, this.#left > 0 && `${this.#left} left`, open && `${this.#panel.id} is ${phrase(open)}`];
    this.#announce(parts.filter(Boolean).join(", "));
    this.#came = this.#left = 0;
  }
}

/** What stands beside the list until somebody is chosen. */
function hints({ development }: Config): HTMLElement {
  return h("aside", { class: "hints", "aria-label": "Hints" },
    h("p", {}, "Choose somebody to see how they are and when they were here."),
    development && h("p", {}, "A private window is another browser: sign in there as somebody else, and see them come, leave, and turn idle when nothing is touched for a while."));
}
