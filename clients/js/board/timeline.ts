import type { Days, Measure, Span } from "./api.js";
import { h, s } from "./dom.js";
import { hours, when } from "./words.js";

/** Each lies in the one before. */
export const measures: readonly Measure[] = ["connected", "foreground", "active"];

/** The days from one to another, both included, as in "2026-12-01". */
export function daysOf({ from, to }: Days): string[] {
  const days: string[] = [];
  for (let at = Date.parse(`${from}T00:00Z`); at <= Date.parse(`${to}T00:00Z`); at += 86_400_000) days.push(new Date(at).toISOString().slice(0, 10));
  return days;
}

const short = new Intl.DateTimeFormat(undefined, { weekday: "short", day: "numeric", month: "short", timeZone: "UTC" });
export const dayName = (day: string): string => short.format(new Date(`${day}T00:00Z`));

/** A key of the three shades. */
export function legend(): HTMLElement {
  return h("p", { class: "legend" }, ...measures.map((m) => h("span", { class: m }, m)));
}

/**
 * When somebody was connected, in the foreground and active, a row for each day, as the
 * local time of the ledger's zone has it.
 */
export function timeline(days: Days): HTMLElement {
  const midnights = boundaries(days);
  const rows = daysOf(days).reverse().map((day) => {
    const total = days.days[day] ?? {};
    const [from, to] = midnights.get(day)!;
    const bars = (days.spans ?? []).flatMap((span) => bar(span, from, to));
    return h("div", { class: "day", role: "listitem" },
      h("span", { class: "date" }, dayName(day)),
      days.spans && h("span", { class: "track", "aria-hidden": "true" }, strip(bars)),
      h("span", { class: "total", title: measures.map((m) => `${m} ${hours(total[m] ?? 0)}`).join(", ") }, total.connected ? hours(total.connected) : "–",
        total.connected ? h("span", { class: "unseen" }, ` connected, ${hours(total.foreground ?? 0)} in the foreground, ${hours(total.active ?? 0)} active`) : null));
  });
  const scale = h("div", { class: "scale", "aria-hidden": "true" }, ...[0, 6, 12, 18, 24].map((hour) => h("span", {}, `${String(hour).padStart(2, "0")}`)));
  return h("div", { class: "timeline" }, days.spans && scale, h("div", { role: "list", "aria-label": "Online time by day" }, ...rows),
    days.spans && sessions(days.spans));
}

/** Each day's first instant and that of the next, in ms; the zone decides. */
function boundaries(days: Days): Map<string, readonly [number, number]> {
  const all = daysOf(days);
  const bounds = new Map<string, readonly [number, number]>();
  for (const day of all) {
    const from = midnight(day, days.zone);
    bounds.set(day, [from, midnight(next(day), days.zone)]);
  }
  return bounds;
}

const next = (day: string): string => new Date(Date.parse(`${day}T00:00Z`) + 86_400_000).toISOString().slice(0, 10);

/** The first instant of a day in a zone: the offset there is that of a moment near it. */
export function midnight(day: string, zone: string): number {
  const utc = Date.parse(`${day}T00:00Z`);
  let at = utc;
  for (let i = 0; i < 2; i++) at = utc - offset(at, zone);
  return at;
}

function offset(at: number, zone: string): number {
  const parts = new Intl.DateTimeFormat("en-US", {
    timeZone: zone, hourCycle: "h23", year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit",
  }).formatToParts(at);
  const part = (type: string) => Number(parts.find((p) => p.type === type)?.value);
  return Date.UTC(part("year"), part("month") - 1, part("day"), part("hour"), part("minute"), part("second")) - Math.floor(at / 1000) * 1000;
}

function bar(span: Span, from: number, to: number): SVGElement[] {
  const begin = Math.max(span.from_ms, from);
  const end = Math.min(span.to_ms, to);
  if (begin >= end) return [];
  const x = ((begin - from) / (to - from)) * 1000;
  return [s("rect", { class: span.measure, x, width: Math.max(((end - begin) / (to - from)) * 1000, 1.5), y: 0, height: 10 })];
}

function strip(bars: readonly SVGElement[]): SVGElement {
  const order = (bar: SVGElement) => measures.indexOf(bar.getAttribute("class") as Measure);
  return s("svg", { viewBox: "0 0 1000 10", preserveAspectRatio: "none" }, ...[...bars].sort((a, b) => order(a) - order(b)));
}

/** The same as text, newest first. */
function sessions(spans: readonly Span[]): HTMLElement {
  const connected = spans.filter((span) => span.measure === "connected").sort((a, b) => b.from_ms - a.from_ms).slice(0, 50);
  return h("details", {},
    h("summary", {}, `Sessions (${connected.length})`),
    h("div", { class: "wide", tabindex: 0, role: "group", "aria-label": "Sessions" }, h("table", {},
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Device"), h("th", { scope: "col" }, "From"), h("th", { scope: "col" }, "To"), h("th", { scope: "col", class: "number" }, "Time"))),
      h("tbody", {}, ...connected.map((span) => h("tr", {}, h("td", {}, span.device), h("td", {}, when(span.from_ms)), h("td", {}, when(span.to_ms)), h("td", { class: "number" }, hours(span.to_ms - span.from_ms))))))));
}
