// Containers and standbys: who lives, and who comes next?

import { Bar, Empty, Loaded, Moment, Panel, Status, Text } from "../parts/basics";
import { type Column, Table } from "../parts/table";
import { coordinator, isAlive, liveOf, rests } from "../data";
import { commandLine, count, counted, seconds } from "../format";
import { isOld, lateness, type Resource } from "../poll";
import { link } from "../router";
import { mayChange } from "../session";
import type { Live, LiveContainer, LiveCopy, Resting } from "../types";
import { StandBy } from "../parts/frame";
import { Links } from "../parts/links";

export function Containers({ job }: { job: string }) {
  const live = liveOf(job);
  const leader = coordinator().data.value;
  return (
    <>
      <h1>Containers</h1>
      <Loaded of={live}>
        {(data) => (
          <>
            {!data.served && !rests(data.state) && <StandBy leader={leader?.leader} />}
            <Seats job={job} of={live} data={data} lease={leader?.lease ?? 10} linked={Object.keys(leader?.links ?? {}).length > 0} />
            <Waiting rows={data.resting} at={data.at} />
            <Copies job={job} rows={data.copies} />
            {leader && <p class="dim">Heartbeats refused because their sender had lost its seat: {count(leader.invalidHeartbeats)}</p>}
          </>
        )}
      </Loaded>
    </>
  );
}

function Seats({ job, of, data, lease, linked }: { job: string; of: Resource<Live>; data: Live; lease: number; linked: boolean }) {
  const current = of.heard.value > 0 && !isOld(of);
  const since = current ? lateness(of) : null;
  const columns: Column<LiveContainer>[] = [
    { id: "seat", title: "seat", cell: (row) => <Text of={row.seat} />, by: (row) => row.seat },
    { id: "id", title: "container", cell: (row) => <Text of={row.id} />, by: (row) => row.id },
    { id: "state", title: "state", cell: (row) => <Status of={current && row.gone === null && !isAlive(row) ? "not heard" : row.gone !== null ? "lost" : data.served && current ? "alive" : "not known"} />, by: (row) => (row.gone === null ? 0 : 1) },
    { id: "lease", title: "lease", cell: (row) => leaseOf(row, lease, since) },
    { id: "heard", title: "beat", number: true, cell: (row) => beatOf(row, data.at, since) },
    { id: "lanes", title: "lanes", number: true, cell: (row) => <a href={link(["jobs", job, "lanes"], { seat: row.seat })}>{count(row.lanes)}</a>, by: (row) => row.lanes },
    { id: "host", title: "host", cell: (row) => <Text of={`${row.host} (pid ${row.pid})`} />, by: (row) => row.host },
    { id: "rack", title: "rack", cell: (row) => <Text of={row.rack} />, by: (row) => row.rack },
    ...(linked ? [{ id: "links", title: "see", cell: (row: LiveContainer) => <Links job={job} of={row} /> }] : []),
    ...(mayChange() ? [{ id: "fence", title: "take its seat", cell: (row: LiveContainer) => (row.gone === null ? <a href={link(["jobs", job, "changes", "new"], { kind: "fence", container: row.id })}>fence…</a> : "") }] : []),
    { id: "gone", title: "why lost", wide: true, cell: (row) => (row.gone === null ? "" : <Text of={row.gone} />) },
    { id: "since", title: "registered", cell: (row) => (row.registered === null ? "–" : <Moment ms={row.registered * 1000} />), by: (row) => row.registered },
  ];
  const taken = data.containers.filter((each) => each.gone === null).length;
  const unheard = taken - data.containers.filter(isAlive).length;
  return (
    <Panel title="Seats" note={`${data.seats} wanted, ${data.served ? `${taken} taken${unheard ? `, ${unheard} of them not heard` : ""}` : rests(data.state) ? "none taken: the job doesn't run" : "not known here how many are taken"}`}>
      <Table
        name="containers"
        caption="Containers, and those that lost their seats last"
        columns={columns}
        rows={data.containers}
        id={(row) => row.id}
        text={(row) => `${row.id} ${row.host} ${row.rack ?? ""} ${row.gone ?? ""}`}
        empty={`No container has a seat: lanes wait. Start one: ${commandLine(["container", job])}`}
      />
    </Panel>
  );
}

/** since: seconds since the coordinator should have said something new; null: what it said doesn't count any more. */
function beatOf({ heard }: LiveContainer, at: number, since: number | null) {
  return <span class="ticking">{heard === null || since === null ? "–" : `${seconds(Math.max(0, at - heard + since))} ago`}</span>;
}

/** It runs down by the coordinator's seconds, and only while the page hears of the coordinator. */
function leaseOf(of: LiveContainer, whole: number, since: number | null) {
  if (of.gone !== null) return "–";
  if (of.lease === null || since === null) return <Bar part={null} label="not known" />;
  const left = Math.max(0, of.lease - since);
  return (
    <>
      <Bar part={left / whole} label={`${left.toFixed(1)} of ${whole} s left`} /> <span class="dim small ticking">{left.toFixed(0)} s</span>
    </>
  );
}

function Waiting({ rows, at }: { rows: Resting[]; at: number }) {
  return (
    <Panel title="Standing by" note="processes that take a seat as soon as one is free">
      {rows.length === 0 ? (
        <Empty>None: a seat that is lost waits until another container is started.</Empty>
      ) : (
        <ul>
          {rows.map((each) => (
            <li key={`${each.host} ${each.pid} ${each.execution}`}>
              <Text of={each.host} /> (pid {each.pid}){each.rack && <>, <Text of={each.rack} /></>} · keeps {counted(each.copies, "standby", "standbys")}
              {each.asked !== null && <> · asked {seconds(Math.max(0, at - each.asked))} ago</>}
            </li>
          ))}
        </ul>
      )}
    </Panel>
  );
}

function Copies({ job, rows }: { job: string; rows: LiveCopy[] }) {
  const columns: Column<LiveCopy>[] = [
    { id: "lane", title: "lane", cell: (row) => <a href={link(["jobs", job, "lanes", row.lane])}><Text of={row.lane} /></a>, by: (row) => row.lane },
    { id: "number", title: "copy", number: true, cell: (row) => row.number, by: (row) => row.number },
    { id: "container", title: "kept by", cell: (row) => (row.container ? <Text of={row.container} /> : "one that stands by"), by: (row) => row.container },
    { id: "rack", title: "rack", cell: (row) => <Text of={row.rack} />, by: (row) => row.rack },
    { id: "behind", title: "batches behind", number: true, cell: (row) => (row.behind === null ? "not whole yet" : count(row.behind)), by: (row) => row.behind },
    { id: "error", title: "error", wide: true, cell: (row) => (row.error ? <><Status of="failed" /> <Text of={row.error} /></> : "") },
  ];
  return (
    <Panel title="Standbys" note="copies of the folders of lanes that run elsewhere">
      <Table
        name="standbys"
        caption="Standbys"
        prefix="s"
        sort="-behind"
        columns={columns}
        rows={rows}
        id={(row) => `${row.lane} ${row.number}`}
        text={(row) => `${row.lane} ${row.container} ${row.error}`}
        empty="None: [assignment] standbys is 0, or no lane has state."
      />
    </Panel>
  );
}
