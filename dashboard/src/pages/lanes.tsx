// Lanes: what runs, since when, and out of what?

import { Bar, BothZones, Command, Empty, Facts, Loaded, Moment, Panel, Status, Text } from "../parts/basics";
import { type Column, Table } from "../parts/table";
import { jobPath, liveOf } from "../data";
import { brief, count, counted, inOrder, percent, rate, seconds, shown } from "../format";
import { useResource } from "../poll";
import { link, route, setQuery } from "../router";
import { Links } from "../parts/links";
import { Timeline } from "./timeline";
import { type JobEvent, type Lane, type LiveContainer, type LiveLane, type PartitionRow, type Partitions, records } from "../types";

/** Why it has ended, or else what it waits for and what it has met; empty: nothing is known. */
function troubleOf(of: LiveLane): string {
  return of.error || [of.awaits && `waits for ${of.awaits}`, of.trouble].filter(Boolean).join(": ");
}

/** `troubled`: whether any lane has an error to show. */
const columns = (job: string, troubled: boolean): Column<LiveLane>[] => [
  { id: "id", title: "lane", cell: (row) => <a href={link(["jobs", job, "lanes", row.id])}><Text of={row.id} /></a>, by: (row) => row.id },
  { id: "state", title: "state", cell: (row) => <><Status of={row.state} />{row.state !== "failed" && (row.attempt ?? 1) > 1 && <span class="busy"> ◆ attempt {row.attempt}</span>}</>, by: (row) => row.state },
  ...(troubled ? [{ id: "trouble", title: "error", wide: true, cell: (row) => (troubleOf(row) ? <Text of={troubleOf(row)} /> : ""), by: (row) => troubleOf(row) || null } as Column<LiveLane>] : []),
  { id: "stage", title: "stage", cell: (row) => <Text of={`${row.stage} · ${row.group}`} />, by: (row) => `${row.stage} ${row.group}` },
  { id: "seat", title: "seat", cell: (row) => <Text of={row.seat} />, by: (row) => row.seat },
  { id: "phase", title: "phase", cell: (row) => (row.phase === null ? <span class="dim">not heard</span> : <Text of={row.phase} />), by: (row) => row.phase },
  { id: "batch", title: "batch", number: true, cell: (row) => count(row.batch), by: (row) => (row.batch === null ? null : Number(row.batch)) },
  { id: "progress", title: "in the batch", cell: (row) => <Bar part={row.progress} label={row.progress === null ? "between two batches" : percent(row.progress)} />, by: (row) => row.progress },
  { id: "rate", title: "read", number: true, cell: (row) => rate(row.rate), by: (row) => row.rate },
  { id: "lag", title: "lag", number: true, cell: (row) => brief(row.lag), by: (row) => (row.lag === null ? null : Number(row.lag)) },
  { id: "busy", title: "busy", number: true, cell: (row) => percent(row.busy), by: (row) => row.busy },
  { id: "epoch", title: "epoch", number: true, cell: (row) => count(row.epoch), by: (row) => row.epoch },
];

export function Lanes({ job }: { job: string }) {
  const { stage = "", state = "", seat = "", view = "table" } = route.value.query;
  return (
    <>
      <h1>Lanes</h1>
      <div class="tools">
        <label>
          show as{" "}
          <select value={view} onChange={(event) => setQuery({ view: event.currentTarget.value === "table" ? "" : event.currentTarget.value }, true)}>
            <option value="table">table</option>
            <option value="timeline">timeline</option>
          </select>
        </label>
      </div>
      {view === "timeline" ? <Timeline job={job} /> : <Now job={job} stage={stage} state={state} seat={seat} />}
    </>
  );
}

function Now({ job, stage, state, seat }: { job: string; stage: string; state: string; seat: string }) {
  const live = liveOf(job);
  return (
    <>
      <Loaded of={live}>
        {(data) => (
          <Panel title="Open lanes" note="each is one streaming query, with a folder and fixed tasks of its own">
            <div class="tools">
              <Choice name="stage" value={stage} values={data.lanes.map((each) => each.stage)} />
              <Choice name="state" value={state} values={data.lanes.map((each) => each.state)} />
              <Choice name="seat" value={seat} values={data.lanes.map((each) => each.seat)} />
            </div>
            <Table
              name="lanes"
              caption="Open lanes"
              columns={columns(job, data.lanes.some((each) => troubleOf(each) !== ""))}
              rows={data.lanes.filter((each) => (!stage || each.stage === stage) && (!state || each.state === state) && (!seat || each.seat === seat))}
              id={(row) => row.id}
              text={(row) => `${row.id} ${row.stage} ${row.group} ${troubleOf(row)}`}
              empty="No lane is open: the job has ended, or none fits the filters."
            />
          </Panel>
        )}
      </Loaded>
      <Closed job={job} />
    </>
  );
}

/** `resets`: what else of the address is set back when something else is chosen. */
export function Choice({ name, value, values, resets = [] }: { name: string; value: string; values: string[]; resets?: string[] }) {
  const all = [...new Set(values)].sort(inOrder);
  return (
    <label>
      {name}{" "}
      <select value={value} onChange={(event) => setQuery({ ...Object.fromEntries(resets.map((each) => [each, ""])), [name]: event.currentTarget.value }, true)}>
        <option value="">all</option>
        {(value && !all.includes(value) ? [value, ...all] : all).map((each) => (
          <option key={each} value={each}>{shown(each)}</option>
        ))}
      </select>
    </label>
  );
}

const MOST = 2_000;

function Closed({ job }: { job: string }) {
  const open = route.value.query.closed === "1";
  return (
    <details open={open} onToggle={(event) => setQuery({ closed: event.currentTarget.open ? "1" : "" })}>
      <summary>Lanes that are closed</summary>
      {open && <ClosedTable job={job} />}
    </details>
  );
}

function ClosedTable({ job }: { job: string }) {
  const found = useResource<{ lanes: Lane[] }>(jobPath(job, "/lanes"), 30_000);
  return (
    <Loaded of={found}>
      {({ lanes }) => {
        const closed = lanes.filter((each) => each.state === "closed");
        return (
          <>
            {closed.length > MOST && <p class="dim">The last {count(MOST)} of {count(closed.length)}.</p>}
            <Table
              name="closed lanes"
              caption="Closed lanes"
              prefix="c"
              columns={[
                { id: "id", title: "lane", cell: (row) => <LaneLink job={job} id={row.id} />, by: (row) => row.id },
                { id: "deployment", title: "deployment", number: true, cell: (row) => row.deployment, by: (row) => row.deployment },
                { id: "stage", title: "stage", cell: (row) => <Text of={`${row.stage} · ${row.group}`} />, by: (row) => row.stage },
                { id: "factor", title: "factor", number: true, cell: (row) => row.factor, by: (row) => row.factor },
                { id: "from", title: "goes on from", wide: true, cell: (row) => <LaneLinks job={job} ids={row.predecessors} /> },
              ]}
              rows={closed.slice(-MOST)}
              id={(row) => row.id}
              text={(row) => row.id}
              empty="None yet: lanes close when the job is changed, drained or replaced."
            />
          </>
        );
      }}
    </Loaded>
  );
}

function LaneLink({ job, id }: { job: string; id: string }) {
  return (
    <a href={link(["jobs", job, "lanes", id])}>
      <Text of={id} />
    </a>
  );
}

export function LaneLinks({ job, ids }: { job: string; ids: string[] }) {
  if (ids.length === 0) return <>–</>;
  return (
    <>
      {ids.slice(0, 20).map((id, at) => (
        <span key={id}>
          {at > 0 && ", "}
          <LaneLink job={job} id={id} />
        </span>
      ))}
      {ids.length > 20 && ` and ${count(ids.length - 20)} more`}
    </>
  );
}

export function LaneDetail({ job, id }: { job: string; id: string }) {
  const live = liveOf(job);
  const asked = encodeURIComponent(id);
  const all = useResource<{ lanes: Lane[] }>(jobPath(job, `/lanes?lane=${asked}`), 30_000);
  const read = useResource<Partitions>(jobPath(job, `/partitions?lane=${asked}&sort=ssp&limit=2000`), 5_000).data.value;
  const now = live.data.value?.lanes.find((each) => each.id === id);
  return (
    <>
      <h1>
        Lane <Text of={id} />
      </h1>
      <p>
        <a href={link(["jobs", job, "lanes"])}>all lanes</a>
      </p>
      {now && <Present job={job} of={now} by={live.data.value?.containers.find((each) => each.seat === now.seat && each.gone === null)} />}
      {now && read?.served && (
        <Panel title="Positions" note={read.total > 2_000 ? `the first 2,000 of ${count(read.total)} partitions` : undefined}>
          <Table
            name="partitions"
            caption="Where it is in its inputs"
            columns={[
              { id: "ssp", title: "partition", cell: (row) => <Text of={row.ssp} />, by: (row) => row.ssp },
              { id: "position", title: "next offset", number: true, cell: (row) => count(row.position) },
              { id: "end", title: "end", number: true, cell: (row) => count(row.end) },
              { id: "time", title: "its time", cell: (row) => <Moment ms={row.time} /> },
              { id: "idle", title: "idle", cell: (row) => (row.idle ? <Status of="idle" /> : "") },
            ]}
            rows={records<PartitionRow>(read.table).filter((row) => row.position !== null)}
            id={(row) => row.ssp}
            text={(row) => row.ssp}
            empty="It has not read anything yet."
          />
        </Panel>
      )}
      <Loaded of={all}>
        {({ lanes }) => {
          const lane = lanes.find((each) => each.id === id);
          return lane ? <Record job={job} of={lane} lanes={lanes} /> : <Empty>The job never had such a lane.</Empty>;
        }}
      </Loaded>
      <LaneEvents job={job} id={id} />
    </>
  );
}

function Present({ job, of, by }: { job: string; of: LiveLane; by: LiveContainer | undefined }) {
  return (
    <>
      {by && (
        <p>
          in <a href={link(["jobs", job, "containers"], { find: by.id })}><Text of={by.id} /></a> <Links job={job} of={by} />
        </p>
      )}
      {troubleOf(of) !== "" && (
        <div class="problem">
          <Status of={of.error ? "failed" : "attention"} /> <Text of={troubleOf(of)} />
          {!of.error && (of.attempt ?? 1) > 1 && <p class="dim">It was begun again: attempt {of.attempt}{Number(of.stalls) > 0 && `; it stood still ${counted(of.stalls, "time")}`}.</p>}
        </div>
      )}
      <Facts
        of={[
          ["state", <><Status of={of.state} /> <span class="dim">{of.phase ?? "not heard"}</span></>],
          ["batch", `${count(of.batch)}, the last took ${seconds(of.seconds)}, usually ${seconds(of.usual)}`],
          ["in the batch", <Bar part={of.progress} label={of.progress === null ? "between two batches" : percent(of.progress)} />],
          ["rates", `reads ${rate(of.rate)}, ${rate(of.arriving)} arrive`],
          ["lag", `${count(of.lag)} offsets`],
          ["busy", `${percent(of.busy)}, functions ${percent(of.working)}`],
          ["slowest bucket", of.slowest ? <><Text of={of.slowest} /> ({of.skew?.toFixed(1)} × the mean)</> : "–"],
          ["watermark", of.watermark === null ? "not known" : <BothZones ms={Number(of.watermark)} />],
          ["held back by", <Text of={of.heldBy} />],
          ["dead letters", count(of.deadLetters)],
        ]}
      />
    </>
  );
}

function Record({ job, of, lanes }: { job: string; of: Lane; lanes: Lane[] }) {
  const followers = lanes.filter((each) => each.predecessors.includes(of.id)).map((each) => each.id);
  return (
    <Panel title="What it is">
      <Facts
        of={[
          ["state", <Status of={of.state} />],
          ["stage and group", <Text of={`${of.stage} · ${of.group}`} />],
          ["seat", <Text of={of.seat} />],
          ["deployment", count(of.deployment)],
          ["tasks", <Text of={of.tasks.slice(0, 20).join(", ") + (of.tasks.length > 20 ? ` and ${of.tasks.length - 20} more` : "")} />],
          ["partitions", count(of.ssps.length)],
          ["state kept", of.stateful ? "yes" : "no"],
          ["goes on from", <LaneLinks job={job} ids={of.predecessors} />],
          ["followed by", <LaneLinks job={job} ids={followers} />],
          ["reads from lanes", <LaneLinks job={job} ids={of.upstream} />],
          ["writes", <Text of={Object.keys(of.outputs).join(", ")} />],
          ["dead letters to", <Text of={Object.values(of.deadLetters).join(", ")} />],
          ["error", <Text of={of.error} />],
        ]}
      />
      <Command of={["describe", job, "--json"]} />
    </Panel>
  );
}

function LaneEvents({ job, id }: { job: string; id: string }) {
  const found = useResource<{ events: JobEvent[] }>(jobPath(job, "/events?limit=1000"), 5_000);
  return (
    <Panel title="What happened to it">
      <Loaded of={found}>
        {({ events }) => {
          const of = events.filter((each) => each.lane === id || each.what.includes(id) || each.why.includes(id)).reverse();
          return of.length === 0 ? (
            <Empty>Nothing among the last {count(events.length)} events of the job.</Empty>
          ) : (
            <ul class="log">
              {of.slice(0, 100).map((each) => (
                <li key={each.id ?? `${each.at} ${each.what}`}>
                  <Moment ms={each.at * 1000} /> <Text of={each.what} />
                  {each.why && <>: <Text of={each.why} /></>}
                </li>
              ))}
            </ul>
          );
        }}
      </Loaded>
    </Panel>
  );
}
