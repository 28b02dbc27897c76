import type { Figures, Group, Keeper, KeeperShard, Way } from "./api.js";
import { h, s } from "./dom.js";
import { count, counted, seconds, span, when } from "./words.js";

const ways: Record<string, string> = {
  close: "says goodbye", half_open: "falls silent", edge_crash: "gateway crashes", edge_restart: "gateway restarts",
};

/** How many samples the curve has: ten minutes at one in two seconds. */
const SAMPLES = 300;

/** How the fabric is: for operators. */
export class FabricView {
  readonly element = h("div", { class: "fabric" }, h("h2", {}, "Fabric"), h("p", { class: "hint" }, "Waiting for figures…"));
  readonly #curve: { at: number; flips: number; changes: number }[] = [];

  show(f: Figures): void {
    this.#sample(f);
    const open = new Set([...this.element.querySelectorAll<HTMLDetailsElement>("details[open]")].map((d) => d.id));
    const focused = this.element.contains(document.activeElement) ? document.activeElement?.id : "";
    this.element.replaceChildren(
      h("div", { class: "bar" }, h("h2", {}, "Fabric"), h("p", { class: "hint" }, `as of ${new Date(f.at).toLocaleTimeString()}`)),
      ...f.missing.map((what) => h("p", { class: "notice warn" }, `Missing: ${what}`)),
      tiles(f), detection(f.keepers), this.#absorbed(f.keepers), edges(f), shards(f), groups(f.groups),
    );
    for (const details of this.element.querySelectorAll("details")) details.open = open.has(details.id);
    if (focused) document.getElementById(focused)?.focus();
  }

  trouble(message: string): void {
    this.element.querySelector(".trouble")?.remove();
    this.element.prepend(h("p", { class: "notice warn trouble" }, `The figures are old: ${message}`));
  }

  #sample(f: Figures): void {
    const { flips, changes } = totals(f.keepers);
    const last = this.#curve.at(-1);
    if (last && (flips < last.flips || changes < last.changes)) this.#curve.length = 0; // a keeper began anew
    this.#curve.push({ at: new Date(f.at).getTime(), flips, changes });
    if (this.#curve.length > SAMPLES) this.#curve.shift();
  }

  #absorbed(keepers: readonly Keeper[]): HTMLElement {
    const { flips, changes } = totals(keepers);
    const first = this.#curve[0]!;
    const last = this.#curve.at(-1)!;
    const lately = { flips: last.flips - first.flips, changes: last.changes - first.changes };
    const text = `${counted(flips, "flip")} of devices, ${counted(changes, "change")} published since ${keepers.length > 0 ? when(Math.min(...keepers.map((k) => Date.parse(k.since)))) : "–"}.`
      + (last === first ? "" : ` In the last ${span(last.at - first.at)}: ${count(lately.flips)} and ${count(lately.changes)}.`);
    return h("section", { class: "card", "aria-labelledby": "flips-title" },
      h("h3", { id: "flips-title" }, "Flips and published changes"),
      h("p", { class: "hint" }, "Devices come and go; the debounce and other devices of the same user keep what would only flicker from being published. Changes between active, idle and background are published too."),
      h("p", { class: "legend" }, h("span", { class: "flips" }, "flips"), h("span", { class: "changes" }, "published")), this.#plot(), h("p", {}, text));
  }

  #plot(): SVGElement {
    const [from, to] = [this.#curve[0]!, this.#curve.at(-1)!];
    const top = Math.max(to.flips - from.flips, to.changes - from.changes, 1);
    const width = Math.max(to.at - from.at, 1);
    const line = (of: "flips" | "changes") => this.#curve.map((p, i) => {
      const x = ((p.at - from.at) / width) * 600;
      const y = 78 - ((p[of] - from[of]) / top) * 72;
      return i === 0 ? `M${x.toFixed(1)} ${y.toFixed(1)}` : `H${x.toFixed(1)}V${y.toFixed(1)}`;
    }).join("");
    return s("svg", { class: "curve", viewBox: "0 0 600 80", preserveAspectRatio: "none", role: "img", "aria-label": `${to.flips - from.flips} flips and ${to.changes - from.changes} published changes while this page was open` },
      s("path", { class: "flips", d: line("flips") }), s("path", { class: "changes", d: line("changes") }));
  }
}

function totals(keepers: readonly Keeper[]): { flips: number; changes: number } {
  const sum = (name: string) => keepers.reduce((n, k) => n + (k.counters[name] ?? 0), 0);
  return { flips: sum("device_flips"), changes: sum("changes") };
}

function tiles(f: Figures): HTMLElement {
  const owned = f.keepers.flatMap((k) => k.shards);
  const sum = (of: (shard: KeeperShard) => number) => owned.reduce((n, shard) => n + of(shard), 0);
  const bad = f.keepers.reduce((n, k) => n + (k.counters["false_offlines"] ?? 0), 0);
  const tile = (label: string, value: string, note = "", mark = "") => h("div", { class: `tile ${mark}` }, h("dt", {}, label), h("dd", {}, value, h("small", {}, note)));
  return h("dl", { class: "tiles" },
    tile("People online", count(sum((x) => x.online)), `of ${count(sum((x) => x.users))} known`),
    f.ledger ? tile("Active lately", count(f.ledger.active), "in the last 5 minutes") : "",
    tile("Connections", count(sum((x) => x.connections)), `on ${counted(f.edges.length, "edge")}`),
    tile("Shown offline wrongly", count(bad), bad > 0 ? "while a device lived" : "not once", bad > 0 ? "bad" : ""));
}

/** The ways of all keepers together. */
function merged(keepers: readonly Keeper[]): Way[] {
  const all = new Map<string, Way>();
  for (const way of keepers.flatMap((k) => k.ways)) {
    const known = all.get(way.way);
    if (!known || known.count === 0) all.set(way.way, way);
    else if (way.count > 0) {
      const n = known.count + way.count;
      all.set(way.way, {
        ...known, count: n, early: known.early + way.early, late: known.late + way.late,
        min_ms: Math.min(known.min_ms, way.min_ms), max_ms: Math.max(known.max_ms, way.max_ms),
        mean_ms: (known.mean_ms * known.count + way.mean_ms * way.count) / n,
      });
    }
  }
  return [...all.values()];
}

/** How late each way of leaving was noticed, on one scale with its bound. */
function detection(keepers: readonly Keeper[]): HTMLElement {
  const all = merged(keepers);
  const end = Math.max(...all.map((w) => Math.max(w.latest_ms, w.max_ms)), 1) * 1.05;
  const percent = (ms: number) => `${((ms / end) * 100).toFixed(2)}%`;
  const row = (w: Way) => {
    const bound = w.earliest_ms === w.latest_ms ? span(w.latest_ms) : `${span(w.earliest_ms)} to ${span(w.latest_ms)}`;
    const [least, most] = [seconds(w.min_ms), seconds(w.max_ms)];
    const measured = w.count === 0 ? "nobody yet" : least === most ? `${most}, ${w.count === 1 ? "once" : `${count(w.count)} times`}`
      : `${least} to ${most}, ${seconds(w.mean_ms)} on average of ${count(w.count)}`;
    const out = w.early + w.late;
    const graph = h("span", { class: "range", "aria-hidden": "true" });
    const mark = (kind: string, from: number, to: number) => {
      const element = h("span", { class: kind });
      element.style.insetInlineStart = percent(from);
      element.style.width = percent(to - from);
      graph.append(element);
    };
    mark("bound", w.earliest_ms, w.latest_ms);
    if (w.count > 0) mark("measured", w.min_ms, w.max_ms);
    if (w.count > 0) mark("mean", w.mean_ms, w.mean_ms);
    return h("tr", {}, h("th", { scope: "row" }, ways[w.way] ?? w.way), h("td", {}, bound), h("td", { class: "graph" }, graph), h("td", {}, measured),
      h("td", {}, w.count === 0 ? "–" : out === 0 ? h("span", { class: "good" }, "within") : h("span", { class: "bad" }, `${count(out)} outside`)));
  };
  return h("section", { class: "card detection", "aria-labelledby": "detection-title" },
    h("h3", { id: "detection-title" }, "How late offline is shown"),
    h("p", { class: "hint" }, "From leaving until offline is published. The band is what is promised, the bar what was measured since the keeper started."),
    wide("How late offline is shown", ["Who", "Bound", "", "Measured", ""], all.map(row)));
}

function wide(label: string, columns: readonly string[], rows: readonly HTMLElement[]): HTMLElement {
  return h("div", { class: "wide", tabindex: 0, role: "group", "aria-label": label, id: `wide-${label.replaceAll(" ", "-")}` },
    h("table", {}, h("thead", {}, h("tr", {}, ...columns.map(head))), h("tbody", {}, ...rows)));
}

/** The head of a column; those of numbers begin with "#". */
function head(name: string): HTMLElement {
  if (!name) return h("td", {});
  return h("th", { scope: "col", class: name.startsWith("#") ? "number" : "" }, name.replace("#", ""));
}

function edges(f: Figures): HTMLElement {
  const { lease_ttl_ms } = f.timing;
  const rows = f.edges.map((e) => {
    const left = lease_ttl_ms - e.oldest_ms;
    return h("tr", {}, h("th", { scope: "row" }, e.edge), h("td", { class: "number" }, `${e.leases}`), h("td", {}, span(e.oldest_ms), " ago"),
      h("td", { class: "graph" }, h("progress", { value: Math.max(left, 0), max: lease_ttl_ms, "aria-label": `Lease of ${e.edge}`, ...(left < lease_ttl_ms / 4 && { class: "low" }) })),
      h("td", {}, left > 0 ? `${span(left)} left` : h("span", { class: "bad" }, "over")), h("td", {}, when(e.started)));
  });
  return h("section", { class: "card", "aria-labelledby": "edges-title" }, h("h3", { id: "edges-title" }, "Edges"),
    rows.length === 0 ? h("p", { class: "hint" }, "No edge has a lease.") : wide("Edges", ["Edge", "#Leases", "Renewed", "", "Lease", "Started"], rows));
}

function shards(f: Figures): HTMLElement {
  const keeping = new Map(f.keepers.flatMap((k) => k.shards.map((x) => [x.shard, x] as const)));
  const rows = f.shards.map(({ shard, owners }) => {
    const now = keeping.get(shard);
    const owner = (kind: string, otherwise = "nobody") => {
      const o = owners[kind];
      return h("td", { title: o ? `generation ${o.generation}` : "" }, o ? h("span", {}, o.name, h("small", {}, ` since ${when(o.since)}`)) : h("span", { class: "hint" }, otherwise));
    };
    return h("tr", {}, h("th", { scope: "row" }, String(shard)), owner("keeper"), owner("fanout"), owner("ledger", f.ledger?.shards.includes(shard) ? "one alone" : "nobody"),
      h("td", {}, now ? (now.ready ? h("span", { class: "good" }, "kept") : "reading") : h("span", { class: "bad" }, "not kept")),
      h("td", { class: "number" }, now ? count(now.online) : "–"), h("td", { class: "number" }, now ? count(now.connections) : "–"));
  });
  return h("section", { class: "card", "aria-labelledby": "shards-title" }, h("h3", { id: "shards-title" }, "Shards and owners"),
    wide("Shards and owners", ["Shard", "Keeper", "Fanout", "Ledger", "State", "#Online", "#Connections"], rows));
}

function groups(all: readonly Group[]): HTMLElement {
  const summary = (g: Group) => {
    const healthy = g.members.filter((m) => m.state === "healthy").length;
    const unowned = g.partitions.filter((p) => !p.owner).length;
    return h("summary", {}, h("strong", {}, g.group), ` ${healthy} of ${counted(g.members.length, "member")} healthy, ${counted(g.partitions.length, "partition")}`,
      unowned > 0 ? h("span", { class: "bad" }, `, ${unowned} without an owner`) : "");
  };
  const member = (m: Group["members"][number], g: Group) => h("tr", {}, h("th", { scope: "row" }, m.id),
    h("td", {}, h("span", { class: m.state === "healthy" ? "good" : m.state === "left" ? "" : "bad" }, m.state), m.drained ? ", drained" : ""),
    h("td", {}, m.reason.replaceAll("_", " ")), h("td", { class: "number" }, String(m.partitions)), h("td", { class: "number" }, String(m.load)),
    h("td", {}, span(Date.parse(g.at) - Date.parse(m.seen)), " ago"));
  return h("section", { class: "card", "aria-labelledby": "groups-title" }, h("h3", { id: "groups-title" }, "Worker groups"),
    all.length === 0 ? h("p", { class: "hint" }, "None. Processes that share work become members with package cohort.") : "",
    ...all.map((g) => h("details", { id: `group-${g.bucket}-${g.group}` }, summary(g),
      h("p", { class: "hint" }, `Coordinated by ${g.coordinator || "nobody"}, generation ${g.generation}, in the bucket of ${g.bucket}.`),
      wide(`Members of ${g.group}`, ["Member", "State", "Reason", "#Partitions", "#Load", "Heard"], g.members.map((m) => member(m, g))))));
}
