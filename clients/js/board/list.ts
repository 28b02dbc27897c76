import { h, say } from "./dom.js";
import type { Person } from "./roster.js";
import { detail, mood, phrase } from "./words.js";

/** The height of a row, as in the style sheet. */
const ROW = 52;
/** Rows beyond the edges, so that scrolling meets no gap. */
const SPARE = 6;

interface Row {
  readonly element: HTMLElement;
  readonly name: HTMLElement;
  readonly detail: HTMLElement;
  readonly phrase: HTMLElement;
  index: number;
}

/**
 * A list that makes rows only for what is in sight, however long it is. To assistive
 * technology it is a listbox whose options know their place.
 */
export class List {
  readonly element: HTMLElement;
  readonly #space: HTMLElement;
  readonly #pool: Row[] = [];
  readonly #self: string; // who looks
  readonly #choose: (person: Person) => void;
  #people: readonly Person[] = [];
  #current = 0; // which the keyboard is at
  #chosen = "";
  #waiting = false;

  constructor(label: string, self: string, choose: (person: Person) => void) {
    this.#self = self;
    this.#choose = choose;
    this.#space = h("div", { class: "space", role: "presentation" });
    this.element = h("div", {
      class: "list", role: "listbox", tabindex: 0, "aria-label": label,
      onscroll: () => this.refresh(),
      onkeydown: (event: KeyboardEvent) => this.#key(event),
      onclick: (event: MouseEvent) => this.#click(event),
    }, this.#space);
    new ResizeObserver(() => this.refresh()).observe(this.element);
  }

  show(people: readonly Person[]): void {
    const at = this.#people[this.#current]?.id;
    if (people !== this.#people) {
      this.#people = people;
      const moved = people.findIndex((p) => p.id === at);
      this.#current = moved >= 0 ? moved : Math.min(this.#current, Math.max(people.length - 1, 0));
    }
    this.refresh();
  }

  /** Marks whom the page is about. */
  choose(id: string): void {
    this.#chosen = id;
    const index = this.#people.findIndex((p) => p.id === id);
    if (index >= 0) this.#current = index;
    this.refresh();
  }

  /** Draws what is in sight, once a frame at most. */
  refresh(): void {
    if (this.#waiting) return;
    this.#waiting = true;
    requestAnimationFrame(() => {
      this.#waiting = false;
      this.#draw();
    });
  }

  #draw(): void {
    const { scrollTop, clientHeight } = this.element;
    this.#space.style.height = `${this.#people.length * ROW}px`;
    const first = Math.max(Math.floor(scrollTop / ROW) - SPARE, 0);
    const last = Math.min(Math.ceil((scrollTop + clientHeight) / ROW) + SPARE, this.#people.length);
    const wanted = new Set<number>();
    for (let i = first; i < last; i++) wanted.add(i);
    if (this.#current < this.#people.length) wanted.add(this.#current); // who the keyboard is at is always there
    const free: Row[] = [];
    for (const row of this.#pool) {
      if (!wanted.delete(row.index)) free.push(row);
      else this.#fill(row, row.index);
    }
    for (const index of wanted) this.#fill(free.pop() ?? this.#make(), index);
    for (const row of free) {
      row.index = -1;
      row.element.hidden = true;
    }
    const current = this.#pool.find((row) => row.index === this.#current);
    if (current) this.element.setAttribute("aria-activedescendant", current.element.id);
    else this.element.removeAttribute("aria-activedescendant");
  }

  #make(): Row {
    const name = h("span", { class: "name" });
    const detail = h("span", { class: "detail" });
    const phrase = h("span", { class: "phrase" });
    const element = h("div", { class: "row", role: "option", id: `row-${this.#pool.length}` }, h("span", { class: "mark", "aria-hidden": "true" }), name, detail, phrase);
    const row = { element, name, detail, phrase, index: -1 };
    this.#pool.push(row);
    this.#space.append(element);
    return row;
  }

  #fill(row: Row, index: number): void {
    const person = this.#people[index];
    if (!person) return;
    const { element } = row;
    if (row.index !== index) {
      row.index = index;
      element.hidden = false;
      element.style.transform = `translateY(${index * ROW}px)`;
      element.setAttribute("aria-posinset", String(index + 1));
    }
    const { state } = person;
    element.dataset["id"] = person.id;
    element.dataset["mood"] = mood(state);
    element.setAttribute("aria-setsize", String(this.#people.length));
    element.setAttribute("aria-selected", String(person.id === this.#chosen));
    element.toggleAttribute("data-current", index === this.#current);
    say(row.name, person.id);
    say(row.detail, [person.id === this.#self && "you", detail(state)].filter(Boolean).join(" · "));
    say(row.phrase, phrase(state));
  }

  #key(event: KeyboardEvent): void {
    const page = Math.max(Math.floor(this.element.clientHeight / ROW) - 1, 1);
    const steps: Record<string, number> = {
      ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -this.#people.length, End: this.#people.length,
    };
    const step = steps[event.key];
    if (step !== undefined) {
      event.preventDefault();
      this.#current = Math.min(Math.max(this.#current + step, 0), Math.max(this.#people.length - 1, 0));
      this.#reveal();
      this.refresh();
    } else if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      const person = this.#people[this.#current];
      if (person) this.#choose(person);
    }
  }

  #reveal(): void {
    const { scrollTop, clientHeight } = this.element;
    const top = this.#current * ROW;
    if (top < scrollTop) this.element.scrollTop = top;
    else if (top + ROW > scrollTop + clientHeight) this.element.scrollTop = top + ROW - clientHeight;
  }

  #click(event: MouseEvent): void {
    const row = (event.target as Element).closest<HTMLElement>(".row");
    const person = this.#people.find((p) => p.id === row?.dataset["id"]);
    if (person) this.#choose(person);
  }
}
