// The keyboard. Nothing here can't be reached by Tab, too.

import { JOB_PAGES, openHelp } from "./parts/frame";
import { go, job, link, route, setQuery } from "./router";
import { shortcuts, useZone, zone } from "./session";

let went = 0;

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName));
}

export function startKeys(): void {
  addEventListener("keydown", (event) => {
    if (!shortcuts.value || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    if (document.querySelector("dialog[open]")) return;
    const after = went > Date.now() - 1_500;
    went = 0;
    if (after ? goTo(event.key) : act(event.key)) event.preventDefault();
  });
}

function goTo(key: string): boolean {
  if (key === "j") {
    go("#/");
    return true;
  }
  const page = JOB_PAGES.find((each) => each[2] === key);
  if (!page || job.value === null) return false;
  go(link(page[0] ? ["jobs", job.value, page[0]] : ["jobs", job.value]));
  return true;
}

function act(key: string): boolean {
  switch (key) {
    case "?":
      openHelp();
      return true;
    case "/":
      document.querySelector<HTMLInputElement>("input.find")?.focus();
      return true;
    case "g":
      went = Date.now();
      return true;
    case "j":
      return row(1);
    case "k":
      return row(-1);
    case "u":
      useZone(zone.value === "UTC" ? "" : "UTC");
      return true;
    case "t": {
      const [, , page] = route.value.path;
      const name = page === "matrix" || page === "lanes" ? "view" : "plots";
      const other = page === "lanes" ? "timeline" : "table"; // the table of lanes is what comes first
      setQuery({ [name]: route.value.query[name] === other ? "" : other }, true);
      return true;
    }
    default:
      return false;
  }
}

/** The link of the next or previous row takes the focus; Enter then opens it. */
function row(by: number): boolean {
  const links = [...document.querySelectorAll<HTMLElement>("[data-row] a:first-of-type")].filter((each, at, all) => {
    const of = each.closest("[data-row]");
    return all.findIndex((other) => other.closest("[data-row]") === of) === at;
  });
  if (links.length === 0) return false;
  const at = links.findIndex((each) => each.closest("[data-row]")?.contains(document.activeElement));
  links[Math.max(0, Math.min(links.length - 1, at < 0 ? (by > 0 ? 0 : links.length - 1) : at + by))]?.focus();
  return true;
}
