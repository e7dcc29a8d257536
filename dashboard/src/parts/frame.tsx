// What is around each page: which job, in which state, how old the figures are, and the way to other pages.

import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { lost } from "../api";
import { browserZone, shown, zoneName } from "../format";
import { liveOf, overview } from "../data";
import { now, type Resource } from "../poll";
import { go, job, link, route } from "../router";
import { shortcuts, theme, token, useShortcuts, useTheme, useToken, useZone, zone } from "../session";
import { Age, Status, Text } from "./basics";

export const JOB_PAGES: [string, string, string][] = [
  ["", "Overview", "o"],
  ["graph", "Graph", "g"],
  ["matrix", "Matrix", "m"],
  ["lanes", "Lanes", "l"],
  ["partitions", "Partitions", "p"],
  ["containers", "Containers", "c"],
  ["assignment", "Assignment", "a"],
  ["changes", "Changes", "h"],
  ["drain", "Drain", "r"],
  ["sizing", "Sizing", "s"],
  ["events", "Events", "e"],
  ["dead-letters", "Dead letters", "d"],
];

export function Frame({ children }: { children: ComponentChildren }) {
  const name = job.value;
  return (
    <>
      <a class="skip" href={location.hash} onClick={(event) => (event.preventDefault(), document.getElementById("main")?.focus())}>
        to the content
      </a>
      <header class="top">
        <a class="home" href="#/">
          anabranch
        </a>
        {name !== null && <JobBar name={name} key={name} />}
        <span class="grow" />
        {name === null && <JobsAge />}
        <Choices />
      </header>
      <Disconnected />
      <div class="body">
        {name !== null && <Side name={name} />}
        <main id="main" tabIndex={-1}>
          {children}
        </main>
      </div>
      <Help />
    </>
  );
}

function JobsAge() {
  return <Age of={overview()} />;
}

function JobBar({ name }: { name: string }) {
  const jobs = overview().data.value?.jobs.map((each) => each.job) ?? [];
  const live = liveOf(name);
  const at = live.data.value;
  return (
    <>
      <select
        class="jobs"
        aria-label="job"
        value={name}
        onChange={(event) => go(link(["jobs", event.currentTarget.value, ...route.value.path.slice(2, 3)]))}
      >
        {(jobs.includes(name) ? jobs : [name, ...jobs]).map((each) => (
          <option key={each} value={each}>
            {shown(each)}
          </option>
        ))}
      </select>
      {at && (
        <>
          <span aria-live="polite">
            <Status of={at.state} />
          </span>
          <span class="dim small">
            gen {at.generation} · deployment {at.deployment} · factor {at.factor}
          </span>
        </>
      )}
      <Age of={live} />
    </>
  );
}

function Side({ name }: { name: string }) {
  const present = route.value.path[2] ?? "";
  return (
    <nav class="side" aria-label="pages of the job">
      {JOB_PAGES.map(([path, title]) => (
        <a
          key={path}
          href={link(path ? ["jobs", name, path] : ["jobs", name])}
          aria-current={path === present ? "page" : undefined}
        >
          {title}
        </a>
      ))}
      <hr />
      <a href="#/coordinators">Coordinator</a>
    </nav>
  );
}

function Choices() {
  const own = browserZone();
  const zones = [...new Set(["", "UTC", zone.value])].filter((each) => each !== own || each === "");
  return (
    <span class="choices">
      <select aria-label="time zone" value={zone.value} onChange={(event) => useZone(event.currentTarget.value)}>
        {zones.map((each) => (
          <option key={each} value={each}>
            {each || own}
          </option>
        ))}
      </select>
      <select
        aria-label="colours"
        value={theme.value}
        onChange={(event) => useTheme(event.currentTarget.value as typeof theme.value)}
      >
        <option value="system">as the system</option>
        <option value="light">light</option>
        <option value="dark">dark</option>
      </select>
      <button type="button" onClick={() => showHelp()} aria-label="keys and help">
        ?
      </button>
      {token.value !== null && (
        <button type="button" onClick={() => useToken(null)}>
          forget token
        </button>
      )}
    </span>
  );
}

function Disconnected() {
  const at = lost.value;
  if (!at) return null;
  const wait = Math.max(0, Math.ceil((at.next - now.value) / 1000));
  return (
    <div class="banner bad" role="alert">
      <span aria-hidden="true">✕ </span>
      The coordinator isn't reached. What is shown is from before; nothing can be changed. <span aria-hidden="true">Next try in {wait} s.</span>
    </div>
  );
}

/** Said of jobs whose figures this coordinator only has from the store. Where all jobs are shown, it doesn't lead. */
export function StandBy({ leader, all = false }: { leader: string | null | undefined; all?: boolean }) {
  return (
    <div class="banner" role="status">
      <span aria-hidden="true">▨ </span>
      This coordinator {all ? "doesn't lead: what is shown of jobs" : "doesn't serve the job: what is shown"} is as stored, and leases, rates and lag are not known here.{" "}
      {leader && /^https?:\/\//.test(leader) ? (
        <>
          The leader:{" "}
          <a href={`${leader.replace(/\/$/, "")}/ui/${location.hash}`} rel="noopener noreferrer">
            <Text of={leader} />
          </a>
        </>
      ) : null}
    </div>
  );
}

let showHelp = () => {};

function Help() {
  const ref = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    showHelp = () => ref.current?.showModal();
  }, []);
  return (
    <dialog ref={ref} aria-labelledby="help-title">
      <h2 id="help-title">Keys</h2>
      <table>
        <tbody>
          {[
            ["?", "this help"],
            ["/", "find"],
            ...JOB_PAGES.map(([, title, key]) => [`g ${key}`, title]),
            ["g j", "jobs"],
            ["j  k", "next and previous row"],
            ["Enter", "opens the row"],
            ["t", "table for the picture"],
            ["u", "UTC and back"],
            ["Esc", "closes"],
          ].map(([key, what]) => (
            <tr key={key}>
              <td>
                <kbd>{key}</kbd>
              </td>
              <td>{what}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <p>
        <label>
          <input
            type="checkbox"
            checked={shortcuts.value}
            onChange={(event) => useShortcuts(event.currentTarget.checked)}
          />{" "}
          use these keys
        </label>
      </p>
      <p class="dim">Times: {zoneName()}; point at one to see it in UTC. Everything here is also had by the command line.</p>
      <form method="dialog">
        <button type="submit">close</button>
      </form>
    </dialog>
  );
}

export function openHelp(): void {
  showHelp();
}

export type { Resource };
