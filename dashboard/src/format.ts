// Numbers, times and foreign text as people read them. Nothing here decides anything.

import { zone } from "./session";
import type { Num } from "./types";

/** Made when it is needed: the first formatter that a page makes takes long. */
let compact: Intl.NumberFormat | undefined;
export const UNKNOWN = "–";

/** The order of names, with numbers in them by their size. One for all: to make another one for each comparison is slow. */
export const inOrder = new Intl.Collator("en", { numeric: true }).compare;

/** A count or an offset, in full. Text is a number beyond 2^53, which is left as it is. */
export function count(value: Num | null | undefined): string {
  if (value === null || value === undefined) return UNKNOWN;
  return typeof value === "string" ? grouped(value) : whole(value);
}

function whole(value: number): string {
  const rounded = Math.round(value);
  return rounded < 0 ? `-${grouped(String(-rounded))}` : grouped(String(Math.abs(rounded)));
}

function grouped(digits: string): string {
  return digits.replace(/\B(?=(\d{3})+$)/g, ",");
}

/** A count with its noun: "1 lane", "2 lanes". */
export function counted(value: Num | null | undefined, one: string, several = `${one}s`): string {
  return `${count(value)} ${Number(value) === 1 ? one : several}`;
}

/** A figure that changes all the time, cut to what is read at a glance. */
export function brief(value: Num | null | undefined): string {
  if (value === null || value === undefined) return UNKNOWN;
  const number = Number(value);
  if (Math.abs(number) < 10_000) return whole(number);
  compact ??= new Intl.NumberFormat("en-GB", { notation: "compact", maximumFractionDigits: 1 });
  return compact.format(number);
}

export function rate(value: number | null | undefined): string {
  return value === null || value === undefined ? UNKNOWN : `${brief(Math.round(value))}/s`;
}

export function percent(value: number | null | undefined): string {
  return value === null || value === undefined ? UNKNOWN : `${Math.round(value * 100)} %`;
}

export function seconds(value: number | null | undefined): string {
  if (value === null || value === undefined) return UNKNOWN;
  if (value < 60) return `${value.toFixed(1)} s`;
  if (value < 3_600) return `${Math.floor(value / 60)} min ${Math.floor(value % 60)} s`;
  if (value < 86_400) return `${Math.floor(value / 3_600)} h ${Math.floor((value % 3_600) / 60)} min`;
  return `${Math.floor(value / 86_400)} d ${Math.floor((value % 86_400) / 3_600)} h`;
}

// Controls, and what turns the direction of text or can't be seen.
const unseen = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

/** Text from outside, with what can't be seen, or turns the text around, as visible escapes. */
export function shown(text: string): string {
  return text.replace(unseen, (each) => {
    if (each === "\n") return "⏎";
    if (each === "\t") return " ";
    return code(each);
  });
}

function code(of: string): string {
  return `\\u${of.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

/** A line for the shell: whatever is in a word, it stays one word, also in a shell that doesn't know $'…' and takes it
 * for a $ and a quoted text. What can't be seen is written as its code, and then so are quotes and backslashes. */
export function commandLine(words: readonly string[]): string {
  return ["anabranch", ...words].map(quoted).join(" ");
}

function quoted(word: string): string {
  if (/^[\w@%+=:,./-]+$/.test(word)) return word;
  if (word.search(unseen) < 0) return `'${word.replaceAll("'", `'"'"'`)}'`;
  const unquoted = word.replaceAll("\\", "\\x5c").replaceAll("'", "\\x27"); // as no shell takes it for a quote
  return `$'${unquoted.replace(unseen, code)}'`;
}

const ZONE_KEPT = 10_000;
let own = { zone: "", until: 0 };

/** The browser's own time zone. Looked up every ten seconds: it takes long, and each moment on a page asks for it. */
export function browserZone(): string {
  const at = performance.now();
  if (at >= own.until) own = { zone: new Intl.DateTimeFormat("en").resolvedOptions().timeZone, until: at + ZONE_KEPT };
  return own.zone;
}

export function zoneName(): string {
  return zone.value || browserZone();
}

const formats = new Map<string, Intl.DateTimeFormat>();

function parts(ms: number, name: string): Record<string, string> {
  let format = formats.get(name);
  if (!format) {
    format = new Intl.DateTimeFormat("en-GB", {
      timeZone: name,
      hourCycle: "h23",
      year: "numeric",
      month: "2-digit",
      day: "2-digit",
      hour: "2-digit",
      minute: "2-digit",
      second: "2-digit",
    });
    formats.set(name, format);
  }
  return Object.fromEntries(format.formatToParts(ms).map((each) => [each.type, each.value]));
}

/** As `anabranch events` prints it, in a zone: 2026-11-25 02:45:10. */
export function moment(ms: number, name: string = zoneName()): string {
  if (!Number.isFinite(ms) || Math.abs(ms) > 8.64e15) return "out of range";
  const of = parts(Math.floor(ms / 1000) * 1000, name);
  return `${of.year}-${of.month}-${of.day} ${of.hour}:${of.minute}:${of.second}`;
}

/** The zone's offset from UTC at that moment, in minutes. */
export function offsetMinutes(ms: number, name: string = zoneName()): number {
  const floor = Math.floor(ms / 1000) * 1000;
  const of = parts(floor, name);
  const local = Date.UTC(+of.year!, +of.month! - 1, +of.day!, +of.hour!, +of.minute!, +of.second!);
  return Math.round((local - floor) / 60_000);
}

/** The same as "+01:00": of two equal hours in autumn it tells which. */
export function offset(ms: number, name: string = zoneName()): string {
  if (!Number.isFinite(ms) || Math.abs(ms) > 8.64e15) return "";
  const minutes = offsetMinutes(ms, name);
  const size = Math.abs(minutes);
  return `${minutes < 0 ? "−" : "+"}${String(Math.floor(size / 60)).padStart(2, "0")}:${String(size % 60).padStart(2, "0")}`;
}
