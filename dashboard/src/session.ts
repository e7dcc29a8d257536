// What this browser keeps: the token for this tab only, theme and zone for all of them.

import { computed, signal } from "@preact/signals";

const TOKEN = "anabranch-token";

function stored(storage: () => Storage, name: string): string | null {
  try {
    return storage().getItem(name);
  } catch {
    return null; // the browser keeps nothing
  }
}

function keep(storage: () => Storage, name: string, value: string | null): void {
  try {
    if (value === null) storage().removeItem(name);
    else storage().setItem(name, value);
  } catch {
    // the browser keeps nothing: it holds until the page is left
  }
}

const perTab = () => sessionStorage;
const forAll = () => localStorage;

export const token = signal<string | null>(stored(perTab, TOKEN));
/** Set by an answer 401: the page asks for a token, and goes on where it was. */
export const needsToken = signal(false);

export function useToken(value: string | null): void {
  token.value = value;
  needsToken.value = value === null;
  keep(perTab, TOKEN, value);
}

/** What the token that was sent lets its bearer do, as the coordinator says; null: it has said nothing yet. */
export const role = signal<string | null>(null);

/** Whether this page may change anything, and see records; the coordinator decides in the end. */
export function mayChange(): boolean {
  return role.value !== "read";
}

export type Theme = "system" | "light" | "dark";

export const theme = signal<Theme>((stored(forAll, "anabranch-theme") as Theme | null) ?? "system");
const systemIsDark = matchMedia("(prefers-color-scheme: dark)");
const systemTheme = signal<"light" | "dark">(systemIsDark.matches ? "dark" : "light");
systemIsDark.addEventListener("change", ({ matches }) => (systemTheme.value = matches ? "dark" : "light"));
/** The colours that are shown: the system's, unless others were chosen. */
export const colours = computed(() => (theme.value === "system" ? systemTheme.value : theme.value));
/** An IANA name, or "" for the browser's own. */
export const zone = signal(known(stored(forAll, "anabranch-zone") ?? ""));
export const shortcuts = signal(stored(forAll, "anabranch-keys") !== "off");

function known(name: string): string {
  if (!name) return "";
  try {
    new Intl.DateTimeFormat("en", { timeZone: name });
    return name;
  } catch {
    return "";
  }
}

export function useTheme(value: Theme): void {
  theme.value = value;
  keep(forAll, "anabranch-theme", value === "system" ? null : value);
}

export function useZone(value: string): void {
  zone.value = known(value);
  keep(forAll, "anabranch-zone", zone.value || null);
}

export function useShortcuts(on: boolean): void {
  shortcuts.value = on;
  keep(forAll, "anabranch-keys", on ? null : "off");
}

/** Ids of requests; not crypto.randomUUID, which plain http:// of another machine hasn't. */
export function randomId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (each) => each.toString(16).padStart(2, "0")).join("");
}
