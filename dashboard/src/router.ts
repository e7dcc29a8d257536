// Which page is shown, and with which filters: all of it is in the part of the URL behind "#".

import { computed, signal } from "@preact/signals";
import { useToken } from "./session";

export interface Route {
  path: string[];
  query: Record<string, string>;
}

function parse(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#/, "").split(/\?(.*)/s);
  return {
    path: path.split("/").filter(Boolean).map(decoded),
    query: Object.fromEntries(new URLSearchParams(query)),
  };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** The address of a page. Values that are empty are left out. */
export function link(path: string[], query: Record<string, string | undefined> = {}): string {
  const given = Object.entries(query).filter((each): each is [string, string] => Boolean(each[1]));
  const text = new URLSearchParams(given).toString();
  return `#/${path.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

export const route = signal<Route>(parse(location.hash));
export const job = computed(() => (route.value.path[0] === "jobs" ? (route.value.path[1] ?? null) : null));

export function go(address: string): void {
  if (address === location.hash) return;
  history.pushState(null, "", address);
  route.value = parse(address);
  scrollTo(0, 0);
}

/** Change filters of the page that is shown. A step can be gone back; typing can't. */
export function setQuery(change: Record<string, string | undefined>, step = false): void {
  const query = { ...route.value.query, ...change };
  const address = link(route.value.path, query);
  if (address === location.hash) return;
  if (step) history.pushState(null, "", address);
  else history.replaceState(null, "", address);
  route.value = parse(address);
}

/** Take a token out of the URL before anything is asked with it, or shown. */
function takeToken(): void {
  const { path, query } = parse(location.hash);
  if (path[0] !== "login") return;
  if (query.token) useToken(query.token);
  const next = query.next?.startsWith("/") ? `#${query.next}` : "#/";
  history.replaceState(null, "", next);
  route.value = parse(next);
}

export function startRouter(): void {
  takeToken();
  const moved = () => {
    takeToken();
    route.value = parse(location.hash);
  };
  addEventListener("hashchange", moved);
  addEventListener("popstate", moved);
}
