// Events: what happened, when, and why?

import { type ComponentChildren, Fragment } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { BothZones, Empty, Loaded, Moment, Panel, Text } from "../parts/basics";
import { Plot, points, since } from "../parts/plots";
import { clockOf, jobPath, liveOf } from "../data";
import { count, counted, moment, offsetMinutes, shown, zoneName } from "../format";
import { askAll, PERIOD, useResource } from "../poll";
import { link, route, setQuery } from "../router";
import type { Change, History, JobEvent } from "../types";
import { Choice } from "./lanes";

const FIRST = 500;
const KINDS = ["state", "change", "lane", "seat", "fence", "drain", "launcher", "autoscale", "input", "other"];
const MOST = 10_000;
const MOST_ROWS = 1_000;
const LATEST: [string, number][] = [["last 20 minutes", 20], ["last 3 hours", 180], ["last day", 1440]];

export function Events({ job }: { job: string }) {
  const query = route.value.query;
  const { last = String(FIRST), from = "", to = "", kind = "" } = query;
  const limit = Math.min(MOST, Math.max(1, Number(last) || FIRST));
  const asked = new URLSearchParams({ limit: String(limit) });
  for (const [name, text] of [["from", from], ["to", to]] as const) {
    const ms = momentOf(text);
    // A span ends with its last second: the coordinator's moments have fractions.
    if (ms !== null) asked.set(name, String(ms / 1000 + (name === "to" ? 1 : 0)));
  }
  if (kind) asked.set("kind", kind);
  const found = useResource<{ events: JobEvent[] }>(jobPath(job, `/events?${asked}`), PERIOD);
  return (
    <>
      <h1>Events</h1>
      <Night job={job} />
      <Panel title="The job's log" note={`newest first · times in ${zoneName()}`}>
        <div class="tools">
          <input
            type="search"
            class="find"
            placeholder="find"
            aria-label="find in events"
            value={query.find ?? ""}
            onInput={(event) => setQuery({ find: event.currentTarget.value })}
          />
          <Choice name="kind" value={kind} values={KINDS} />
          <Span name="from" value={from} />
          <Span name="to" value={to} />
          <Latest job={job} />
          <label>
            <input type="checkbox" checked={!query.each} onChange={(event) => setQuery({ each: event.currentTarget.checked ? "" : "1" })} /> fold repeats
          </label>
        </div>
        <Loaded of={found}>{({ events }) => <Log job={job} events={events} limit={limit} />}</Loaded>
      </Panel>
    </>
  );
}

/** A moment of the address in ms; null: there is none, or one before 1970, when nothing can have happened. */
function momentOf(text: string | undefined): number | null {
  const ms = Date.parse(text ?? "");
  return ms >= 0 ? ms : null;
}

/** Events that were made when there were no ids yet are told apart by what they say. */
export function identity(of: JobEvent): string {
  return of.id ? String(of.id) : `${of.at} ${of.who} ${of.what}`;
}

export function chosen(events: JobEvent[], query: Record<string, string>): JobEvent[] {
  const find = (query.find ?? "").trim().toLowerCase();
  const from = (momentOf(query.from) ?? -Infinity) / 1000;
  const to = (momentOf(query.to) ?? Infinity) / 1000;
  return events.filter(
    (each) =>
      each.at >= from &&
      each.at <= to &&
      (!query.kind || each.kind === query.kind) &&
      (!find || `${each.who} ${each.what} ${each.why}`.toLowerCase().includes(find)),
  );
}

/** Events in a row that say the same of the same, but for names and numbers. */
export interface Repeated {
  newest: JobEvent;
  /** The others, the newest first. */
  others: JobEvent[];
}

/** Rows, the newest first, with those in a row that repeat each other as one from the third on. */
export function folded(rows: JobEvent[]): Repeated[] {
  const found: (Repeated & { said: string })[] = [];
  for (const each of rows) {
    const said = `${each.kind} ${each.who} ${each.what} ${each.why}`.replace(/\S*\d\S*/g, "#");
    const last = found.at(-1);
    if (last?.said === said) last.others.push(each);
    else found.push({ newest: each, others: [], said });
  }
  const alone = (newest: JobEvent): Repeated => ({ newest, others: [] });
  return found.flatMap((each) => (each.others.length > 1 ? [each] : [each.newest, ...each.others].map(alone)));
}

/** The lag of the last day, with what was changed: a span of it is chosen by dragging over it. */
function Night({ job }: { job: string }) {
  const at = liveOf(job).data.value?.at ?? null;
  const from = since(at, 86_400);
  const history = useResource<History>(jobPath(job, `/history?series=lag&by=job&from=${from}`), 30_000, at !== null);
  const changes = useResource<{ changes: Change[] }>(jobPath(job, "/changes?limit=200"), 30_000);
  const data = history.data.value;
  const all = data === null ? null : points(data, ["lag"]);
  const first = all?.[1]?.findIndex((each) => each !== null) ?? -1;
  if (all === null || first < 0) return null;
  const of = all.map((each) => each.slice(first)) as typeof all;
  const marks = (changes.data.value?.changes ?? []).map((each) => ({ at: each.began, shape: each.outcome === "failed" ? "✕" : "▼" }));
  const chosen = (from: number, to: number) => setQuery({ from: utc(from), to: utc(Math.ceil(to)) }, true);
  return (
    <Panel title="Lag" note="▼ a change; drag over it to choose a span. A gap: nothing was known then">
      <Plot title="lag" names={["lag"]} of={of} marks={marks} onSpan={chosen} />
    </Panel>
  );
}

function utc(at: number): string {
  return `${new Date(Math.floor(at) * 1000).toISOString().slice(0, 19)}Z`;
}

function Log({ job, events, limit }: { job: string; events: JobEvent[]; limit: number }) {
  const query = route.value.query;
  const newest = events.at(-1);
  // Newer ones are announced, and not pushed under who reads. With other filters all are shown.
  const asked = `${query.from ?? ""} ${query.to ?? ""} ${query.kind ?? ""} ${limit}`;
  const [kept, keep] = useState({ of: asked, events });
  const see = () => keep({ of: asked, events });
  const isNew = kept.of !== asked || (kept.events.length === 0 && events.length > 0);
  if (isNew) see();
  const seen = isNew ? events : kept.events;
  const last = seen.at(-1);
  const lastKnown = useRef(newest?.id ?? 0);
  const at = last ? events.findIndex((each) => identity(each) === identity(last)) : -1;
  const fresh = events.length - 1 - at;
  const rows = chosen(seen, query).reverse();
  const shownRows = rows.slice(0, MOST_ROWS);
  const [opened, setOpened] = useState<ReadonlyMap<string, boolean>>(new Map());
  useEffect(() => {
    if (newest?.id && newest.id !== lastKnown.current) {
      lastKnown.current = newest.id;
      askAll();
    }
  }, [newest?.id]);
  return (
    <>
      <div class="tools">
        <span class="dim">
          {count(rows.length)} of {query.from || query.to ? "" : "the last "}
          {count(seen.length)}
        </span>
        <Markdown job={job} rows={rows} />
      </div>
      {fresh > 0 && (
        <button type="button" class="fresh" onClick={see}>
          {at < 0 && "at least "}
          {counted(fresh, "new event")}
        </button>
      )}
      {query.event && <Picked job={job} id={query.event} known={seen} key={query.event} />}
      {rows.length === 0 ? (
        <Empty>{asked.trim() === String(limit) && !query.find ? "Nothing has happened to this job." : "No event fits the filters."}</Empty>
      ) : (
        <ul class="log">
          {(query.each ? shownRows.map((newest) => ({ newest, others: [] })) : folded(shownRows)).map(({ newest, others }) => {
            // New ones join at its head, so it goes by its oldest.
            const group = identity(others.at(-1) ?? newest);
            const isOpen = opened.get(group) ?? others.some((each) => identity(each) === query.event);
            const toggle = () => setOpened(new Map([...opened, [group, !isOpen]]));
            return (
              <Fragment key={group}>
                <Row job={job} of={newest}>
                  {others.length > 0 && (
                    <>
                      {" "}
                      <button type="button" class="repeats" aria-expanded={isOpen} onClick={toggle}>
                        {count(others.length)} like it {isOpen ? "▾" : "▸"}
                      </button>
                    </>
                  )}
                </Row>
                {isOpen && others.map((each) => <Row key={identity(each)} job={job} of={each} />)}
              </Fragment>
            );
          })}
        </ul>
      )}
      {rows.length > MOST_ROWS && <p class="dim">{count(rows.length - MOST_ROWS)} older ones aren't shown: choose a span.</p>}
      {seen.length >= limit && limit < MOST && (
        <button type="button" onClick={() => setQuery({ last: String(Math.min(MOST, limit * 4)) }, true)}>
          show earlier ones
        </button>
      )}
    </>
  );
}

function Row({ job, of, children }: { job: string; of: JobEvent; children?: ComponentChildren }) {
  const query = route.value.query;
  return (
    <li data-row={identity(of)} class={identity(of) === query.event ? "selected" : ""}>
      <a href={link(["jobs", job, "events"], { ...query, event: identity(of) })}>
        <Moment ms={of.at * 1000} />
      </a>{" "}
      {of.kind && of.kind !== "other" && <span class="tag">{shown(of.kind)}</span>}{" "}
      <span class="dim">
        <Text of={of.who} />
      </span>{" "}
      <Text of={of.what} />
      {of.why && <>: <Text of={of.why} /></>}
      {of.lane && <> <a href={link(["jobs", job, "lanes", of.lane])}>→ lane</a></>}
      {children}
    </li>
  );
}

/** The event that the address is of, whatever the filters are. */
function Picked({ job, id, known }: { job: string; id: string; known: JobEvent[] }) {
  const number = /^\d+$/.test(id) ? Number(id) : 0;
  const found = useResource<{ events: JobEvent[] }>(jobPath(job, `/events?after=${number - 1}&limit=1`), 0, number > 1);
  const of = [...known, ...(found.data.value?.events ?? [])].find((each) => identity(each) === id);
  if (!of) return null;
  return (
    <div class="picked">
      <BothZones ms={of.at * 1000} /> · <Text of={of.who} />
      <p>
        <Text of={of.what} />
        {of.why && <>: <Text of={of.why} /></>}
      </p>
    </div>
  );
}

/** Spans that end now, on the coordinator's clock. */
function Latest({ job }: { job: string }) {
  const live = liveOf(job);
  if (live.data.value === null) return null;
  return (
    <span role="group" aria-label="spans that end now">
      {LATEST.map(([title, minutes]) => (
        <button key={title} type="button" onClick={() => setQuery({ from: utc(clockOf(live)! - 60 * minutes), to: "" }, true)}>
          {title}
        </button>
      ))}
    </span>
  );
}

/** A moment to type, in the zone of the page; the URL has it in UTC, once it was typed to the end. */
function Span({ name, value }: { name: "from" | "to"; value: string }) {
  const ms = momentOf(value);
  const local = ms === null ? "" : moment(ms).replace(" ", "T");
  const [draft, setDraft] = useState<string | null>(null);
  const byKeys = useRef(false);
  const done = (field: HTMLInputElement) => {
    byKeys.current = false;
    setDraft(null);
    const text = field.value.length === 16 ? `${field.value}:00` : field.value;
    const isGone = text === "" && !field.validity.badInput;
    if (isGone || (text !== "" && inZone(text) >= 0)) {
      if (text !== local) setQuery({ [name]: text ? new Date(inZone(text)).toISOString().replace(".000Z", "Z") : "" }, true);
    } else {
      field.value = local;
    }
  };
  return (
    <label>
      {name}{" "}
      <input
        type="datetime-local"
        step="1"
        max="9999-12-31T23:59:59"
        value={draft ?? local}
        aria-label={`${name}, in ${zoneName()}`}
        onKeyDown={(event) => {
          byKeys.current = event.key !== "Enter";
          if (event.key === "Enter" && !event.currentTarget.validity.badInput) done(event.currentTarget);
        }}
        onPointerDown={() => (byKeys.current = false)}
        onInput={(event) => setDraft(event.currentTarget.value)}
        onChange={(event) => byKeys.current || done(event.currentTarget)}
        onBlur={(event) => done(event.currentTarget)}
      />
    </label>
  );
}

const DAY = 86_400_000;

/** What "2026-10-25T02:30:00" in the page's zone is, in ms. Of two such moments in autumn, the first; what clocks skip in
 * spring is by the clock before. */
export function inZone(text: string, name: string = zoneName()): number {
  const asUtc = Date.parse(`${text}Z`);
  if (!(Math.abs(asUtc) < 8.64e15 - 2 * DAY)) return NaN;
  const guesses = [asUtc - DAY, asUtc, asUtc + DAY].map((near) => asUtc - offsetMinutes(near, name) * 60_000);
  const wanted = new Date(asUtc).toISOString().slice(0, 19).replace("T", " ");
  return guesses.find((ms) => moment(ms, name) === wanted) ?? guesses[0]!;
}

export function asMarkdown(job: string, rows: JobEvent[]): string {
  const plain = (text: string) => shown(text).replace(/[|\\`*_<>[\]]/g, "\\$&");
  const lines = [...rows].reverse().map((each) => {
    const why = each.why ? `: ${plain(each.why)}` : "";
    return `| ${moment(each.at * 1000, "UTC")} | ${plain(each.who)} | ${plain(each.what)}${why} |`;
  });
  return [`Events of job ${plain(job)}`, "", "| UTC | who | what |", "| --- | --- | --- |", ...lines, ""].join("\n");
}

function Markdown({ job, rows }: { job: string; rows: JobEvent[] }) {
  const [text, setText] = useState("");
  const field = useRef<HTMLTextAreaElement>(null);
  useEffect(() => {
    if (text) field.current?.select();
  }, [text]);
  const copy = () => {
    const made = asMarkdown(job, rows.slice(0, MOST_ROWS));
    setText(made);
    navigator.clipboard?.writeText(made).catch(() => {});
  };
  return (
    <>
      <button type="button" onClick={copy}>
        as Markdown
      </button>
      {text && (
        <span class="markdown">
          <textarea ref={field} readOnly value={text} rows={6} aria-label="the events as Markdown" />
          <button type="button" onClick={() => setText("")}>
            close
          </button>
        </span>
      )}
    </>
  );
}
