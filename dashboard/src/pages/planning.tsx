// A change, before it is made: its plan from the coordinator, the line that does the same, and only then "apply".

import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, lost, post } from "../api";
import { Command, Facts, Loaded, Moment, Panel, Problem, Status, Text } from "../parts/basics";
import { Table } from "../parts/table";
import { jobPath, liveOf } from "../data";
import { count, seconds } from "../format";
import { age, askAll, type Resource, STALE } from "../poll";
import { go, link, route, setQuery } from "../router";
import { randomId } from "../session";
import { type Columns, type Live, type Num, records } from "../types";
import { mayChange } from "./changes";

export const KINDS: [string, string][] = [
  ["scale", "scale"],
  ["expand", "expand"],
  ["assign", "assign"],
  ["rewind", "rewind"],
  ["rollback", "roll back"],
  ["drain", "drain"],
  ["stop", "stop"],
  ["cancel", "take back"],
];

interface Traffic {
  read: Record<string, Record<string, number>>;
}

interface Plan {
  generation?: number;
  deployment?: number;
  factor?: number;
  containers?: number;
  partitions?: Record<string, number>;
  to?: Record<string, Num>;
  notes?: string[];
  stages?: Record<string, string[]>;
  seconds?: number;
  ignored?: string;
  closing?: { id: string }[];
  lanes?: { id: string }[];
  pause?: number;
  free?: string[];
  moved?: number;
  before?: Traffic | null;
  after?: Traffic | null;
  whyNot?: string;
  /** What it was planned for: the coordinator applies it to nothing else. */
  basis?: { deployment: number; generation: number; digest: string } | null;
  outline?: { columns: string[]; closing: unknown[][]; starting: unknown[][]; kept: number } | null;
}

interface BriefLane {
  id: string;
  stage: string;
  seat: string;
  tasks: number;
  ssps: number;
  stateful: boolean;
  predecessors: string[];
}

/** What is asked for, out of the form's fields in the URL; a text says what is missing. */
export function wish(kind: string, query: Record<string, string>, deployment: number): Record<string, unknown> | string {
  switch (kind) {
    case "scale": {
      if (!query.factor && !query.containers) return "choose a factor or a number of containers";
      return { ...(query.factor && { factor: Number(query.factor) }), ...(query.containers && { containers: Number(query.containers) }) };
    }
    case "rewind":
      if (!query.to) return "say from where: earliest, or a time with its offset from UTC";
      return { to: query.to, ...(query.state && { state: query.state }) };
    case "drain":
      return { uuid: query.uuid ?? "", runId: deployment, mode: query.mode === "latest" ? "latest" : "planned" };
    default:
      return {};
  }
}

/** The line of the command line that does the same. */
export function commandOf(job: string, kind: string, query: Record<string, string>, verb = "plan "): string {
  const options: string[] = [];
  if (kind === "scale" && query.factor) options.push("--factor", query.factor);
  if (kind === "scale" && query.containers) options.push("--containers", query.containers);
  if (kind === "rewind" && query.to) options.push("--to", query.to);
  if (kind === "rewind" && query.state) options.push("--state", query.state);
  if (kind === "drain" && query.mode === "latest") options.push("--mode", "latest");
  if (kind === "stop" && query.now === "1") options.push("--now");
  const planned = kind === "stop" || kind === "cancel" ? "" : verb;
  return ["anabranch", ...(planned ? [planned.trim()] : []), kind === "assign" ? "assign" : kind, job, ...options].join(" ");
}

export function Planning({ job }: { job: string }) {
  const live = liveOf(job);
  const { kind = "scale" } = route.value.query;
  const title = KINDS.find(([each]) => each === kind)?.[1] ?? kind;
  return (
    <>
      <h1>Plan: {title}</h1>
      <p>
        <a href={link(["jobs", job, "changes"])}>all changes</a>
      </p>
      {mayChange() ? (
        <Loaded of={live}>{(data) => <Form job={job} kind={kind} live={data} of={live} key={kind} />}</Loaded>
      ) : (
        <p class="dim">This token may only read: nothing can be changed here.</p>
      )}
    </>
  );
}

const FACTORS = Array.from({ length: 11 }, (_, at) => 2 ** at);

function Form({ job, kind, live, of }: { job: string; kind: string; live: Live; of: Resource<Live> }) {
  const query = route.value.query;
  return (
    <>
      <Panel title="What is wanted">
        <div class="tools">
          {kind === "scale" && (
            <>
              <label>
                factor {live.factor} →{" "}
                <select value={query.factor ?? ""} onChange={(event) => setQuery({ factor: event.currentTarget.value })}>
                  <option value="">as it is</option>
                  {FACTORS.map((each) => (
                    <option key={each} value={String(each)}>
                      {each}
                    </option>
                  ))}
                </select>
              </label>
              <label>
                containers {live.seats} →{" "}
                <input
                  type="number"
                  min="1"
                  value={query.containers ?? ""}
                  placeholder="as it is"
                  onInput={(event) => setQuery({ containers: event.currentTarget.value })}
                />
              </label>
            </>
          )}
          {kind === "rewind" && (
            <>
              <label>
                to{" "}
                <input value={query.to ?? ""} placeholder="earliest, or 2026-11-25T02:00:00+01:00" size={34} onInput={(event) => setQuery({ to: event.currentTarget.value })} />
              </label>
              <label>
                state{" "}
                <select value={query.state ?? ""} onChange={(event) => setQuery({ state: event.currentTarget.value })}>
                  <option value="">there is none</option>
                  <option value="keep">keep</option>
                  <option value="clear">clear</option>
                </select>
              </label>
            </>
          )}
          {kind === "drain" && (
            <label>
              takes in{" "}
              <select value={query.mode ?? "planned"} onChange={(event) => setQuery({ mode: event.currentTarget.value })}>
                <option value="planned">what is planned now</option>
                <option value="latest">all up to the latest record of now</option>
              </select>
            </label>
          )}
          {kind === "stop" && (
            <label>
              <input type="checkbox" checked={query.now === "1"} onChange={(event) => setQuery({ now: event.currentTarget.checked ? "1" : "" })} /> at once,
              without waiting for the batch boundary
            </label>
          )}
          {(kind === "expand" || kind === "assign" || kind === "rollback" || kind === "cancel") && <span class="dim">{EXPLAINED[kind]}</span>}
        </div>
        <Command line={commandOf(job, kind, query)} />
      </Panel>
      {kind === "stop" || kind === "cancel" ? (
        <Unplanned job={job} kind={kind} of={of} now={query.now === "1"} />
      ) : (
        <Planned job={job} kind={kind} live={live} of={of} />
      )}
    </>
  );
}

const EXPLAINED: Record<string, string> = {
  expand: "Adapts the job to partitions that were added to its inputs.",
  assign: "Moves tasks to where they should be by the racks as they are now.",
  rollback: "Lets the version before the present one follow it.",
  cancel: "Takes back the change or the drain that is under way.",
};

/** Whether what is shown is so now: nothing is applied on old figures. */
function isCurrent(of: Resource<Live>): boolean {
  return lost.value === null && (age(of) ?? Infinity) < STALE && (of.data.value?.served ?? false);
}

function Unplanned({ job, kind, of, now }: { job: string; kind: string; of: Resource<Live>; now: boolean }) {
  const [typed, setTyped] = useState("");
  const { state, ask, error } = useApply(job, kind);
  const sure = !now || typed === job;
  return (
    <Panel title="Apply">
      {now && <Typed job={job} value={typed} onInput={setTyped} />}
      <button type="button" class="apply" disabled={state !== "idle" || !sure || !isCurrent(of)} onClick={() => void ask(now ? "?now=1" : "", undefined)}>
        {kind === "stop" ? "Stop it" : "Take it back"}
      </button>
      {error && <Problem of={error} />}
    </Panel>
  );
}

function Typed({ job, value, onInput }: { job: string; value: string; onInput: (text: string) => void }) {
  return (
    <label>
      This can't be taken back. Type the job's name, <strong><Text of={job} /></strong>:{" "}
      <input value={value} onInput={(event) => onInput(event.currentTarget.value)} autocomplete="off" />
    </label>
  );
}

type State = "idle" | "asked";

/** One request for each click that counts; sent again it has the same id, so that it's done once. */
function useApply(job: string, kind: string) {
  const [state, setState] = useState<State>("idle");
  const [error, setError] = useState<ApiError | null>(null);
  const ask = async (query: string, body: Record<string, unknown> | undefined) => {
    if (state !== "idle") return;
    setState("asked");
    setError(null);
    try {
      await post(jobPath(job, `/${kind}${query}`), body);
      askAll();
      go(link(["jobs", job, kind === "drain" ? "drain" : "changes"]));
    } catch (problem) {
      if (!(problem instanceof ApiError)) throw problem;
      setError(problem);
      setState("idle");
    }
  };
  return { state, error, ask };
}

const RESTS = 400;

function Planned({ job, kind, live, of }: { job: string; kind: string; live: Live; of: Resource<Live> }) {
  const query = route.value.query;
  const uuid = useRef(randomId());
  const wanted = wish(kind, { ...query, uuid: uuid.current }, live.deployment);
  const asked = JSON.stringify(wanted);
  const basis = `${live.deployment}.${live.generation}`;
  const [plan, setPlan] = useState<{ asked: string; basis: string; plan: Plan; at: number } | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const [again, setAgain] = useState(0);

  useEffect(() => {
    if (typeof wanted === "string") return undefined;
    let current = true;
    const timer = setTimeout(() => {
      post<Plan>(jobPath(job, `/${kind}`), { ...wanted, dry: true, brief: true }).then(
        (found) => {
          if (!current) return;
          setPlan({ asked, basis, plan: found, at: Date.now() });
          setError(null);
        },
        (problem: unknown) => {
          if (current && problem instanceof ApiError) setError(problem);
        },
      );
    }, RESTS);
    return () => {
      current = false;
      clearTimeout(timer);
    };
  }, [asked, basis, again]);

  if (typeof wanted === "string") return <p class="dim">To plan it, {wanted}.</p>;
  const fits = plan !== null && plan.asked === asked;
  return (
    <>
      {error && <Problem of={error} again={() => setAgain(again + 1)} />}
      {fits && !error && (
        <Review job={job} kind={kind} plan={plan.plan} at={plan.at} wanted={wanted} current={plan.basis === basis && isCurrent(of)} again={() => setAgain(again + 1)} />
      )}
      {!fits && !error && <p role="status">planning …</p>}
    </>
  );
}

function Review({ job, kind, plan, at, wanted, current, again }: { job: string; kind: string; plan: Plan; at: number; wanted: Record<string, unknown>; current: boolean; again: () => void }) {
  const [typed, setTyped] = useState("");
  const request = useRef(randomId());
  const { state, error, ask } = useApply(job, kind);
  const outline = plan.outline;
  const closing = outline?.closing.length ?? plan.closing?.length ?? 0;
  const starting = outline?.starting.length ?? plan.lanes?.length ?? 0;
  const nothing = kind !== "drain" && closing === 0 && starting === 0;
  const final = kind === "rewind" && wanted.state === "clear";
  const bound = kind === "drain" || Boolean(plan.basis);
  const apply = () =>
    ask("", {
      ...wanted,
      ...(kind !== "drain" && { request: request.current, expect: plan.basis }),
    });
  return (
    <Panel title="The plan" note={<>planned <Moment ms={at} day={false} /> <button type="button" onClick={again}>plan again</button></>}>
      {kind === "drain" ? <DrainPlan of={plan} /> : <LanePlan of={plan} closing={closing} starting={starting} nothing={nothing} />}
      {outline && <Affected job={job} of={outline} />}
      {!bound && <p class="dim">This coordinator can't tie a change to its plan, so it can't be applied here: use the command line.</p>}
      {final && <Typed job={job} value={typed} onInput={setTyped} />}
      <p>
        <button type="button" class="apply" disabled={!bound || nothing || !current || state !== "idle" || (final && typed !== job)} onClick={() => void apply()}>
          {kind === "drain" ? "Drain it" : `Apply to generation ${plan.basis?.generation ?? "–"}`}
        </button>{" "}
        <a href={link(["jobs", job, "changes"])}>cancel</a>
        {!current && <span class="dim"> The plan is older than the job, or the figures are: it is planned again when they are current.</span>}
      </p>
      {error && <Problem of={error} again={again} />}
    </Panel>
  );
}

function across(of: Traffic | null | undefined): string {
  if (!of) return "–";
  let all = 0;
  let same = 0;
  for (const [rack, row] of Object.entries(of.read)) {
    for (const [from, times] of Object.entries(row)) {
      all += times;
      if (from === rack) same += times;
    }
  }
  return `${count(all - same)} of ${count(all)}`;
}

function LanePlan({ of, closing, starting, nothing }: { of: Plan; closing: number; starting: number; nothing: boolean }) {
  if (nothing) return <p><Status of="done" /> Nothing changes: it is so already.</p>;
  return (
    <Facts
      of={[
        ["lanes", `closes ${count(closing)}, starts ${count(starting)}${of.outline ? `; ${count(of.outline.kept)} run on` : ""}`],
        ["output stands still", `≈ ${seconds(of.pause)}`],
        ...(of.factor !== undefined ? ([["after it", `factor ${of.factor}, ${count(of.containers)} containers`]] as [string, string][]) : []),
        ["tasks that move", count(of.moved ?? 0)],
        ["reads across racks", of.whyNot ? <Text of={of.whyNot} /> : `${across(of.before)} → ${across(of.after)}`],
        ...(of.free?.length ? ([["seats without a container", `${of.free.join(", ")}: their lanes wait until one takes them`]] as [string, string][]) : []),
        ...(of.notes?.length ? ([["notes", of.notes.join(" · ")]] as [string, string][]) : []),
        ...(of.to ? ([["reads again from", `${count(Object.keys(of.to).length)} partitions`]] as [string, string][]) : []),
      ]}
    />
  );
}

function DrainPlan({ of }: { of: Plan }) {
  if (of.ignored) return <p><Status of="attention" /> <Text of={of.ignored} /></p>;
  return (
    <>
      <Facts of={[["takes about", seconds(of.seconds)]]} />
      <ol>
        {Object.entries(of.stages ?? {}).map(([stage, lanes]) => (
          <li key={stage}>
            stage <Text of={stage} />: {count(lanes.length)} lanes
          </li>
        ))}
      </ol>
    </>
  );
}

function Affected({ job, of }: { job: string; of: NonNullable<Plan["outline"]> }) {
  const rows = (part: unknown[][]): BriefLane[] => records<BriefLane>({ columns: of.columns, rows: part } as Columns);
  const all = [...rows(of.closing).map((each) => ({ ...each, closes: true })), ...rows(of.starting).map((each) => ({ ...each, closes: false }))];
  if (all.length === 0) return null;
  return (
    <details>
      <summary>lanes</summary>
      <Table
        name="lanes"
        caption="Lanes that close and start"
        columns={[
          { id: "what", title: "what", cell: (row) => <Status of={row.closes ? "closing" : "starting"} />, by: (row) => (row.closes ? 0 : 1) },
          { id: "id", title: "lane", cell: (row) => (row.closes ? <a href={link(["jobs", job, "lanes", row.id])}><Text of={row.id} /></a> : "a new one"), by: (row) => row.id },
          { id: "stage", title: "stage", cell: (row) => <Text of={row.stage} />, by: (row) => row.stage },
          { id: "seat", title: "seat", cell: (row) => <Text of={row.seat} />, by: (row) => row.seat },
          { id: "tasks", title: "tasks", number: true, cell: (row) => count(row.tasks), by: (row) => row.tasks },
          { id: "state", title: "state", cell: (row) => (row.stateful ? "kept" : "none") },
          { id: "from", title: "goes on from", cell: (row) => <Text of={row.predecessors.join(", ")} /> },
        ]}
        rows={all}
        id={(row) => `${row.closes} ${row.id}`}
        text={(row) => `${row.id} ${row.stage} ${row.seat}`}
        empty="None."
      />
    </details>
  );
}
