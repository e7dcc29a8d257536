// A plan to review: what it closes, starts and moves, and the button that applies it.

import type { ComponentChildren } from "preact";
import { useRef, useState } from "preact/hooks";
import { ApiError, post } from "../api";
import { Facts, Moment, Panel, Problem, Status, Text } from "../parts/basics";
import { Table } from "../parts/table";
import { jobPath, liveOf } from "../data";
import { count, counted, seconds } from "../format";
import { askAll } from "../poll";
import { go, link, route } from "../router";
import { randomId } from "../session";
import { type Columns, type Num, records, type Traffic } from "../types";
import { type Kind, movingKind, type PlannedKind } from "./requests";

export interface Plan {
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

export function Typed({ job, value, onInput }: { job: string; value: string; onInput: (text: string) => void }) {
  return (
    <label>
      This can't be taken back. Type the job's name, <strong><Text of={job} /></strong>:{" "}
      <input value={value} onInput={(event) => onInput(event.currentTarget.value)} autocomplete="off" />
    </label>
  );
}

type State = "idle" | "asked";

/** One request for each click that counts; sent again it has the same id, so that it's done once. */
export function useApply(job: string, kind: Kind, path = jobPath(job, `/${kind}`)) {
  const [state, setState] = useState<State>("idle");
  const [error, setError] = useState<ApiError | null>(null);
  const ask = async (query: string, body: Record<string, unknown> | undefined) => {
    if (state !== "idle") return;
    setState("asked");
    setError(null);
    try {
      await post(`${path}${query}`, body);
      askAll();
      go(link(["jobs", job, kind === "drain" ? "drain" : kind === "fence" ? "containers" : "changes"]));
    } catch (problem) {
      setState("idle");
      if (!(problem instanceof ApiError)) throw problem;
      setError(problem);
    }
  };
  return { state, error, ask };
}

export function Review({ job, kind, plan, at, wanted, current, again }: { job: string; kind: PlannedKind; plan: Plan; at: number; wanted: Record<string, unknown>; current: boolean; again: () => void }) {
  const [typed, setTyped] = useState("");
  const request = useRef(randomId());
  const { state, error, ask } = useApply(job, kind);
  const outline = plan.outline;
  const query = route.value.query;
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
      {kind === "drain" ? <DrainPlan job={job} of={plan} /> : <LanePlan of={plan} closing={closing} starting={starting} nothing={nothing} />}
      {outline && <Affected job={job} of={outline} />}
      {movingKind(kind) && !nothing && (
        <p>
          <a href={link(["jobs", job, "matrix"], { by: "moves", kind, factor: query.factor, containers: query.containers })}>matrix of moves</a>
        </p>
      )}
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
        ["lanes", `closes ${count(closing)}, starts ${count(starting)}${of.outline ? `; ${counted(of.outline.kept, "runs on", "run on")}` : ""}`],
        ["output stands still", `≈ ${seconds(of.pause)}`],
        ...(of.factor !== undefined ? ([["after it", `factor ${of.factor}, ${counted(of.containers, "container")}`]] as [string, string][]) : []),
        ["tasks that move", count(of.moved ?? 0)],
        ...(of.whyNot || of.before ? ([["reads across racks", of.whyNot ? <Text of={of.whyNot} /> : `${across(of.before)} → ${across(of.after)}`]] as [string, ComponentChildren][]) : []),
        ...(of.free?.length ? ([["seats without a container", `${of.free.join(", ")}: their lanes wait until one takes them`]] as [string, string][]) : []),
        ...(of.notes?.length ? ([["notes", of.notes.join(" · ")]] as [string, string][]) : []),
        ...(of.to ? ([["reads again from", counted(Object.keys(of.to).length, "partition")]] as [string, string][]) : []),
      ]}
    />
  );
}

function DrainPlan({ job, of }: { job: string; of: Plan }) {
  const rows = liveOf(job).data.value?.windows ?? null;
  if (of.ignored) return <p><Status of="attention" /> <Text of={of.ignored} /></p>;
  return (
    <>
      <Facts
        of={[
          ["takes about", seconds(of.seconds)],
          ["comes out early", rows === null ? "not known" : rows === 0 ? "nothing: no window is open" : `${counted(rows, "row")} of state: windows that aren't complete`],
        ]}
      />
      <ol>
        {Object.entries(of.stages ?? {}).map(([stage, lanes]) => (
          <li key={stage}>
            stage <Text of={stage} />: {counted(lanes.length, "lane")}
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
