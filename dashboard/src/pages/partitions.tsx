// Partitions and event time: who is behind, and who holds the windows?

import { Loaded, Moment, Panel, Status, Text } from "../parts/basics";
import { Table } from "../parts/table";
import { jobPath, liveOf } from "../data";
import { brief, count, counted, offset, seconds, zoneName } from "../format";
import { PERIOD, useResource } from "../poll";
import { link, route, setQuery } from "../router";
import { type LiveLane, type PartitionRow, type Partitions as Found, records } from "../types";
import { Choice } from "./lanes";

const SORTS: [string, string][] = [
  ["-lag", "the largest lag first"],
  ["time", "the earliest event time first"],
  ["ssp", "by name"],
  ["lane", "by lane"],
];

export function Partitions({ job }: { job: string }) {
  const { stage = "", lane = "", by = "-lag", from = "0" } = route.value.query;
  const query = new URLSearchParams({ sort: by, from: String(Math.max(0, Number(from) || 0)), limit: "500" });
  if (stage) query.set("stage", stage);
  if (lane) query.set("lane", lane);
  const found = useResource<Found>(jobPath(job, `/partitions?${query}`), PERIOD);
  const live = liveOf(job);
  return (
    <>
      <h1>Partitions and event time</h1>
      <Loaded of={live}>{(data) => <Watermarks job={job} lanes={data.lanes} />}</Loaded>
      <Panel title="Partitions">
        <div class="tools">
          <Choice name="stage" value={stage} values={live.data.value?.lanes.map((each) => each.stage) ?? []} resets={["from"]} />
          <Choice name="lane" value={lane} values={live.data.value?.lanes.map((each) => each.id) ?? []} resets={["from"]} />
          <label>
            order{" "}
            <select value={by} onChange={(event) => setQuery({ by: event.currentTarget.value, from: "" }, true)}>
              {SORTS.map(([value, title]) => (
                <option key={value} value={value}>
                  {title}
                </option>
              ))}
            </select>
          </label>
        </div>
        <Loaded of={found} unknown="This coordinator lists no partitions: each lane has its own.">
          {(data) => <List job={job} data={data} from={Number(from) || 0} filtered={Boolean(stage || lane)} />}
        </Loaded>
      </Panel>
    </>
  );
}

/** What the windows of each lane wait for. */
function Watermarks({ job, lanes }: { job: string; lanes: LiveLane[] }) {
  const known = lanes.filter((each) => each.watermark !== null);
  const newest = Math.max(...known.map((each) => Math.max(Number(each.watermark), Number(each.newest ?? 0))));
  return (
    <Panel title="Watermarks" note={`the partition that is furthest behind holds its lane's back · times in ${zoneName()}`}>
      <Table
        name="lanes"
        caption="The watermark of each lane, and who holds it back"
        prefix="w"
        sort="watermark"
        columns={[
          { id: "lane", title: "lane", cell: (row) => <a href={link(["jobs", job, "lanes", row.id])}><Text of={row.id} /></a>, by: (row) => row.id },
          { id: "group", title: "stage", cell: (row) => <Text of={`${row.stage} · ${row.group}`} />, by: (row) => row.stage },
          { id: "held", title: "held by", cell: (row) => (row.heldBy ? <strong><Text of={row.heldBy} /></strong> : "–"), by: (row) => row.heldBy },
          {
            id: "watermark",
            title: "watermark",
            cell: (row) => (row.watermark === null ? <span class="dim">{row.phase === null ? "not heard" : "none: no event time, or nothing read yet"}</span> : <Zoned ms={Number(row.watermark)} />),
            by: (row) => (row.watermark === null ? null : Number(row.watermark)),
          },
          { id: "behind", title: "behind the newest partition", number: true, cell: (row) => (row.watermark === null ? "–" : seconds((newest - Number(row.watermark)) / 1000)) },
        ]}
        rows={lanes}
        id={(row) => row.id}
        text={(row) => `${row.id} ${row.heldBy ?? ""}`}
        empty="No lane is open."
      />
    </Panel>
  );
}

/** A moment with its offset: of two equal hours in autumn it says which. The zone stands above the table. */
function Zoned({ ms }: { ms: number }) {
  return (
    <>
      <Moment ms={ms} /> <span class="dim">{offset(ms)}</span>
    </>
  );
}

function List({ job, data, from, filtered }: { job: string; data: Found; from: number; filtered: boolean }) {
  const rows = records<PartitionRow>(data.table);
  const { timed = 0, holding = 0, idle } = data.totals;
  const known = Number(timed) > 0 && Number(timed) === data.total - Number(idle);
  return (
    <>
      <p class="dim">
        {counted(data.total, "partition")} · lag {brief(data.totals.lag)} in all, half of them below {brief(data.quantiles.p50)}, the most {brief(data.quantiles.max)} ·{" "}
        {count(idle)} idle · {count(data.totals.unknown)} not known
        {known && ` · ${count(holding)} of ${count(timed)} hold event time within a minute of the earliest`}
      </p>
      <Table
        name="partitions"
        caption="Partitions"
        columns={[
          { id: "ssp", title: "partition", cell: (row) => <Text of={row.ssp} /> },
          { id: "state", title: "event time", cell: (row) => <>{row.held && <Status of="holds" />}{row.idle && <Status of="idle" />}{!row.held && !row.idle && "–"}</> },
          { id: "time", title: "its time", cell: (row) => (row.time === null ? <span class="dim">{data.served ? "not known" : "not known here"}</span> : <Zoned ms={row.time} />) },
          { id: "lag", title: "lag", number: true, cell: (row) => count(row.lag) },
          { id: "position", title: "next offset", number: true, cell: (row) => count(row.position) },
          { id: "end", title: "end", number: true, cell: (row) => count(row.end) },
          { id: "lane", title: "lane", cell: (row) => <a href={link(["jobs", job, "lanes", row.lane])}><Text of={row.lane} /></a> },
        ]}
        rows={rows}
        id={(row) => `${row.ssp} ${row.lane}`}
        text={(row) => `${row.ssp} ${row.lane}`}
        empty={data.total > 0 ? `None is on this page: there are ${counted(data.total, "partition")}.` : filtered ? "No partition fits the filters." : "No partition is read: no lane has reported."}
      />
      <p class="tools">
        {from > 0 && (
          <button type="button" onClick={() => setQuery({ from: String(Math.max(0, Math.min(from, data.total) - 500) || "") }, true)}>
            previous 500
          </button>
        )}
        {from + rows.length < data.total && (
          <button type="button" onClick={() => setQuery({ from: String(from + 500) }, true)}>
            next 500
          </button>
        )}
      </p>
    </>
  );
}
