// Lanes through time: what ran when, out of what, and what happened to it?

import { Loaded, Moment, Panel, Status, Text } from "../parts/basics";
import { Axis, type Mark, Runs } from "../parts/bars";
import { Table } from "../parts/table";
import { jobPath, liveOf } from "../data";
import { count, counted, moment, zoneName } from "../format";
import { since } from "../parts/plots";
import { useResource } from "../poll";
import { link, route, setQuery } from "../router";
import { type Change, type Columns, type LaneTimes, records } from "../types";
import { Choice, LaneLinks } from "./lanes";

interface Row {
  id: string;
  stage: string;
  group: string;
  seat: string;
  state: string;
  deployment: number;
  factor: number;
  epoch: number;
  predecessors: string[];
  runs: [number, number | null][];
  marks: Mark[];
}

const SPANS: [string, number][] = [
  ["1 h", 3_600],
  ["6 h", 21_600],
  ["24 h", 86_400],
  ["7 d", 604_800],
];

/** Where the span begins and ends, in seconds since 1970, as it is asked for; end 0: now. */
function wanted(query: Record<string, string>, at: number): [number, number] {
  const [from, to] = [Date.parse(query.from ?? ""), Date.parse(query.to ?? "")].map((each) => (Number.isNaN(each) ? 0 : each / 1_000));
  const long = SPANS.find(([name]) => name === query.span)?.[1] ?? 3_600;
  return [from || since(at, long), to || 0];
}

export function Timeline({ job }: { job: string }) {
  const query = route.value.query;
  const live = liveOf(job);
  const at = live.data.value?.at ?? null;
  const [from, to] = wanted(query, at ?? 0);
  const found = useResource<LaneTimes>(jobPath(job, `/lane-times?from=${from}${to ? `&to=${to}` : ""}`), to ? 60_000 : 6_000, at !== null);
  const changes = useResource<{ changes: Change[] }>(jobPath(job, "/changes?limit=200"), 30_000);
  const fixed = Boolean(query.from ?? query.to);
  return (
    <Panel title="Lanes through time" note={`each process that ran a lane is a bar · times in ${zoneName()}`}>
      <div class="tools">
        <label>
          span{" "}
          <select value={fixed ? "" : (query.span ?? "1 h")} onChange={(event) => setQuery({ span: event.currentTarget.value, from: "", to: "" }, true)}>
            {fixed && <option value="">as in the address</option>}
            {SPANS.map(([name]) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
        {found.data.value && <Choice name="stage" value={query.stage ?? ""} values={records<Row>(found.data.value.lanes).map((each) => each.stage)} />}
        <span class="legend">▼ a change · ✕ failed, or tried again · ▲ fenced · ╵ any other event</span>
      </div>
      <Loaded of={found} after={live}>{(data) => <Rows job={job} of={data} changes={changes.data.value?.changes ?? []} />}</Loaded>
    </Panel>
  );
}

/** The rows of the picture, with what happened to each. */
export function rowsOf(of: { lanes: Columns; marks: Columns }): Row[] {
  const marks = new Map<string, Mark[]>();
  for (const each of records<Mark & { lane: string }>(of.marks)) marks.set(each.lane, [...(marks.get(each.lane) ?? []), each]);
  return records<Omit<Row, "marks">>(of.lanes).map((each) => ({ ...each, marks: marks.get(each.id) ?? [] }));
}

function Rows({ job, of, changes }: { job: string; of: LaneTimes; changes: Change[] }) {
  const { stage = "" } = route.value.query;
  const span: [number, number] = [of.since, of.until];
  const rows = rowsOf(of).filter((each) => !stage || each.stage === stage);
  const lines = changes.filter((each) => each.began >= span[0] && each.began < span[1]);
  const unknown = of.knownSince !== null && of.knownSince > of.since;
  return (
    <>
      {unknown && <p class="dim">What happened before {moment(of.knownSince! * 1_000)} isn't known: the oldest event about a lane is of then.</p>}
      {of.omitted > 0 && <p class="dim">{counted(of.omitted, "closed lane")} of this time {of.omitted === 1 ? "is" : "are"} not shown: choose a shorter span.</p>}
      <Table
        name="lanes"
        caption="Lanes through time"
        columns={[
          { id: "id", title: "lane", cell: (row) => <a href={link(["jobs", job, "lanes", row.id])}><Text of={row.id} /></a>, by: (row) => row.id },
          { id: "state", title: "state", cell: (row) => <Status of={row.state} />, by: (row) => row.state },
          { id: "stage", title: "stage", cell: (row) => <Text of={`${row.stage} · ${row.group}`} />, by: (row) => `${row.stage} ${row.group}` },
          { id: "seat", title: "seat", cell: (row) => <Text of={row.seat} />, by: (row) => row.seat },
          { id: "factor", title: "factor", number: true, cell: (row) => count(row.factor), by: (row) => row.factor },
          { id: "epoch", title: "epoch", number: true, cell: (row) => count(row.epoch), by: (row) => row.epoch },
          {
            id: "time",
            title: "when it ran",
            head: <Axis span={span} changes={lines} job={job} />,
            cell: (row) => <Runs span={span} runs={row.runs} marks={row.marks} state={row.state} changes={lines} />,
          },
          { id: "began", title: "began", cell: (row) => <Moment ms={row.runs[0] ? row.runs[0][0] * 1_000 : null} />, by: (row) => row.runs[0]?.[0] ?? null },
          { id: "ended", title: "ended", cell: (row) => <Ended of={row} />, by: (row) => row.runs.at(-1)?.[1] ?? null },
          { id: "from", title: "goes on from", cell: (row) => <LaneLinks job={job} ids={row.predecessors} /> },
        ]}
        rows={rows}
        id={(row) => row.id}
        text={(row) => `${row.id} ${row.stage} ${row.group} ${row.predecessors.join(" ")}`}
        empty="No lane ran then."
      />
    </>
  );
}

function Ended({ of }: { of: Row }) {
  const last = of.runs.at(-1);
  if (!last) return <>–</>;
  return last[1] === null ? <span class="dim">runs</span> : <Moment ms={last[1] * 1_000} />;
}
