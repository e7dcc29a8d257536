// All jobs: which of them needs me?

import { useRef } from "preact/hooks";
import { Loaded, Moment, Panel, Status, Text } from "../parts/basics";
import { StandBy } from "../parts/frame";
import { type Column, Table } from "../parts/table";
import { overview, rests } from "../data";
import { brief, count, counted, inOrder, rate, shown } from "../format";
import { link, route, setQuery } from "../router";
import type { JobOverview } from "../types";

const urgency: Record<string, number> = { failed: 0, changing: 2, draining: 2, starting: 3, stopping: 3, running: 4 };

/** The worst first: failed jobs, jobs with failed lanes or empty seats or that nobody serves, those under way, the rest. */
export function worstFirst(one: JobOverview, other: JobOverview): number {
  return needs(one) - needs(other) || inOrder(one.job, other.job);
}

function needs(of: JobOverview): number {
  if (of.state !== "failed" && needsSomebody(of)) return 1;
  return urgency[of.state] ?? 5;
}

export function needsSomebody(of: JobOverview): boolean {
  const empty = of.served && of.containers !== null && of.containers < of.seats && of.state === "running";
  const unserved = of.worst?.rule === "no-leader";
  return of.state === "failed" || of.failedLanes > 0 || of.worst?.severity === "failed" || empty || unserved;
}

export function trend(of: number | null): string {
  if (of === null) return "";
  return of > 1 ? " ↑" : of < -1 ? " ↓" : " →";
}

const columns: Column<JobOverview>[] = [
  { id: "state", title: "state", cell: (row) => <Status of={row.state} />, by: (row) => row.state },
  { id: "job", title: "job", cell: (row) => <a href={link(["jobs", row.job])}><Text of={row.job} /></a>, by: (row) => row.job },
  { id: "why", title: "what is wrong", wide: true, cell: (row) => <What of={row} /> },
  { id: "since", title: "since", cell: (row) => <Moment ms={row.changedAt === null ? null : row.changedAt * 1000} />, by: (row) => row.changedAt },
  { id: "lag", title: "lag", number: true, cell: (row) => brief(row.lag) + trend(row.lagTrend), by: (row) => (row.lag === null ? null : Number(row.lag)) },
  { id: "rate", title: "read", number: true, cell: (row) => rate(row.rows), by: (row) => row.rows },
  { id: "containers", title: "containers", number: true, cell: (row) => `${row.containers ?? "–"}/${row.seats}`, by: (row) => row.seats },
  { id: "factor", title: "factor", number: true, cell: (row) => count(row.factor), by: (row) => row.factor },
  { id: "generation", title: "gen", number: true, cell: (row) => count(row.generation), by: (row) => row.generation },
];

function What({ of }: { of: JobOverview }) {
  if (of.worst) return <Text of={of.worst.what} />;
  if (of.failedLanes > 0) return <>{count(of.failedLanes)} of {counted(of.lanes, "lane")} failed</>;
  if (!of.served) return rests(of.state) ? <>–</> : <span class="dim">not served here: as stored</span>;
  if (of.containers !== null && of.containers < of.seats) return <>{counted(of.seats - of.containers, "seat")} without a container</>;
  return <>–</>;
}

export function Jobs() {
  const found = overview();
  return (
    <>
      <h1>Jobs</h1>
      <Loaded of={found}>
        {(data) => (
          <>
            {!data.leads && <StandBy leader={data.leader} all />}
            <List jobs={data.jobs} />
          </>
        )}
      </Loaded>
    </>
  );
}

function List({ jobs }: { jobs: JobOverview[] }) {
  const state = route.value.query.state ?? "";
  const order = useRef<string[]>([]);
  const inside = useRef(false);
  const best = [...jobs].sort(worstFirst).map((each) => each.job);
  const known = new Set(order.current);
  const changed = best.length !== known.size || best.some((each) => !known.has(each));
  const moves = best.filter((each, at) => order.current[at] !== each).length;
  if (!inside.current || changed) order.current = best;
  const place = new Map(order.current.map((each, at) => [each, at]));
  const rows = [...jobs].sort((one, other) => place.get(one.job)! - place.get(other.job)!);
  const states = [...new Set(jobs.map((each) => each.state))].sort();
  const needing = jobs.filter(needsSomebody).length;
  const settled = { onMouseEnter: () => (inside.current = true), onMouseLeave: () => (inside.current = false) };
  return (
    <div {...settled} onFocusCapture={() => (inside.current = true)} onBlurCapture={() => (inside.current = false)}>
      <Panel
        title="All jobs"
        note={`${counted(jobs.length, "job")} · ${needing ? counted(needing, "needs attention", "need attention") : "none needs attention"}${
          inside.current && moves ? ` · ${counted(moves, "row")} would move` : ""
        }`}
      >
        <label class="tools">
          state{" "}
          <select value={state} onChange={(event) => setQuery({ state: event.currentTarget.value }, true)}>
            <option value="">all</option>
            {states.map((each) => (
              <option key={each} value={each}>{shown(each)}</option>
            ))}
          </select>
        </label>
        <Table
          name="jobs"
          caption="Jobs, the worst first"
          columns={columns}
          rows={state ? rows.filter((each) => each.state === state) : rows}
          id={(row) => row.job}
          text={(row) => row.job}
          empty="No jobs yet. Start one: anabranch run JOB.py, or anabranch start JOB.py"
        />
      </Panel>
    </div>
  );
}
