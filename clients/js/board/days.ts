import type { Days, Figures, Measure, Today } from "./api.js";
import { h, s } from "./dom.js";
import { dayName, daysOf, legend, measures } from "./timeline.js";
import { count, hours } from "./words.js";

/** Those that contain each other first, and then the labels of the application. */
function ordered(of: Today["measures"]): [string, { users: number; seconds: number }][] {
  const place = (name: string) => (measures.includes(name as Measure) ? measures.indexOf(name as Measure) : measures.length);
  return Object.entries(of).sort(([a], [b]) => place(a) - place(b) || a.localeCompare(b));
}

/** Online time of all, today and by day. */
export class DaysView {
  readonly element: HTMLElement;
  readonly #today = h("div", {});
  readonly #days = h("div", {}, h("p", { class: "hint" }, "Waiting for the ledger…"));

  constructor() {
    this.element = h("div", { class: "days" }, h("h2", {}, "Online time"), this.#today, this.#days);
  }

  showToday({ ledger }: Figures): void {
    this.#today.replaceChildren(...(ledger?.today ?? []).map((t) => h("section", { class: "card", "aria-label": `Today in ${t.zone}` },
      h("h3", {}, "Today", h("small", {}, ` ${t.date} in ${t.zone}`)),
      h("dl", { class: "tiles" }, ...ordered(t.measures).map(([name, m]) =>
        h("div", { class: "tile" }, h("dt", {}, name), h("dd", {}, hours(m.seconds * 1000), h("small", {}, `of ${count(m.users)} people`))))))));
  }

  show(days: Days): void {
    const all = daysOf(days);
    const top = Math.max(...all.map((day) => days.days[day]?.connected ?? 0), 1);
    const step = 1000 / all.length;
    const bars = all.flatMap((day, i) => measures.map((m) => {
      const height = ((days.days[day]?.[m] ?? 0) / top) * 190;
      return s("rect", { class: m, x: i * step + step * 0.12, width: step * 0.76, y: 196 - height, height }, s("title", {}, `${dayName(day)}: ${hours(days.days[day]?.[m] ?? 0)} ${m}`));
    }));
    const rows = [...all].reverse().filter((day) => days.days[day]).map((day) => h("tr", {}, h("th", { scope: "row" }, dayName(day)),
      ...measures.map((m) => h("td", { class: "number" }, hours(days.days[day]?.[m] ?? 0)))));
    this.#days.replaceChildren(h("section", { class: "card", "aria-labelledby": "days-title" },
      h("h3", { id: "days-title" }, "By day", h("small", {}, ` the last ${all.length} days in ${days.zone}`)), legend(),
      s("svg", { class: "bars", viewBox: "0 0 1000 200", preserveAspectRatio: "none", role: "img", "aria-label": "Online time of everybody by day, as in the table below" }, ...bars),
      h("div", { class: "axis", "aria-hidden": "true" }, h("span", {}, dayName(all[0]!)), h("span", {}, dayName(all.at(-1)!))),
      rows.length === 0 ? h("p", { class: "hint" }, "Nothing yet.") : h("div", { class: "wide", tabindex: 0, role: "group", "aria-label": "Online time by day" }, h("table", {},
        h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Day"), ...measures.map((m) => h("th", { scope: "col", class: "number" }, m)))), h("tbody", {}, ...rows))),
      days.role === "auditor" ? "" : h("p", { class: "hint" }, `As the role ${days.role} sees it: whole days that have ended${days.role === "analyst" ? ", no small groups" : ""}.`)));
  }

  trouble(message: string): void {
    this.#days.replaceChildren(h("p", { class: "notice warn" }, message));
  }
}
