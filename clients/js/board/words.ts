import type { State } from "../src/index.js";

const numbers = new Intl.NumberFormat("en");
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const day = new Intl.DateTimeFormat(undefined, { weekday: "short", day: "numeric", month: "short" });

export const count = (n: number): string => numbers.format(n);

/** "1 person", "2 people". */
export const counted = (n: number, one: string, many = `${one}s`): string => `${count(n)} ${n === 1 ? one : many}`;

/** A duration in the two units that matter. */
export function span(ms: number): string {
  const seconds = Math.max(ms, 0) / 1000;
  if (seconds < 10) return `${seconds.toFixed(1).replace(/\.0$/, "")} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min${Math.round(seconds % 60) > 0 ? ` ${Math.round(seconds % 60)} s` : ""}`;
  if (minutes < 48 * 60) return `${Math.floor(minutes / 60)} h${minutes % 60 > 0 ? ` ${minutes % 60} min` : ""}`;
  return `${Math.floor(minutes / 1440)} days`;
}

/** What was measured, to the tenth of a second. */
export const seconds = (ms: number): string => `${(ms / 1000).toFixed(1)} s`;

/** Hours and minutes of online time, which can be many. */
export function hours(ms: number): string {
  const minutes = Math.round(ms / 60_000);
  if (minutes < 1 && ms > 0) return `${Math.round(ms / 1000)} s`;
  return minutes < 60 ? `${minutes} min` : `${count(Math.floor(minutes / 60))} h ${String(minutes % 60).padStart(2, "0")}`;
}

/** A time of day, with its day if that is another. */
export function when(at: number | string): string {
  const date = new Date(at);
  const time = clock.format(date);
  return date.toDateString() === new Date().toDateString() ? time : `${day.format(date)}, ${time}`;
}

/** The word for how somebody is shown, which is also the class of its mark. */
export function mood(state: State): string {
  if (state.status !== "online") return state.status;
  if (state.availability) return state.availability;
  return state.state ?? "online";
}

const phrases: Record<string, string> = {
  active: "active", idle: "idle", background: "in the background", online: "online", away: "away", dnd: "do not disturb",
  invisible: "invisible", offline: "offline", recently: "here recently", long_ago: "here long ago", unknown: "unknown",
};

/** How somebody is shown, in words. */
export const phrase = (state: State): string => phrases[mood(state)] ?? state.status;

const reasons: Record<string, string> = {
  disconnected: "the server is away", fanout_silent: "nobody answers", keeper_silent: "the keeper is silent", feed_behind: "the feed is behind",
};

/** What stands beside the phrase. */
export function detail(state: State): string {
  if (state.reason) return reasons[state.reason] ?? state.reason;
  const parts = [state.text, state.activity].filter(Boolean);
  if (state.status === "offline" && state.last_seen_minute) parts.push(`last seen ${when(state.last_seen_minute)}`);
  return parts.join(" · ");
}
