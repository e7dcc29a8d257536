// Sizing: how lanes cope, and what the autosizer makes of it.

import { Bar, Command, Empty, Facts, Loaded, Moment, Panel, Text } from "../parts/basics";
import type { ComponentChildren } from "preact";
import { type Column, Table } from "../parts/table";
import { jobPath } from "../data";
import { brief, count, percent, rate, seconds } from "../format";
import { useResource } from "../poll";
import { link } from "../router";
import { mayChange } from "../session";
import type { FactorForecast, JobEvent, LaneSizing, Sizing as Found } from "../types";

const columns = (job: string): Column<LaneSizing>[] => [
  { id: "lane", title: "lane", cell: (row) => <a href={link(["jobs", job, "lanes", row.lane])}><Text of={row.lane} /></a>, by: (row) => row.lane },
  { id: "seat", title: "seat", cell: (row) => <Text of={row.seat} />, by: (row) => row.seat },
  { id: "busy", title: "busy", cell: (row) => <><Bar part={row.busy} label={`busy ${percent(row.busy)}`} /> {percent(row.busy)}</>, by: (row) => row.busy },
  { id: "working", title: "functions", cell: (row) => <><Bar part={row.working} label={`functions ${percent(row.working)}`} /> {percent(row.working)}</>, by: (row) => row.working },
  { id: "lag", title: "lag", number: true, cell: (row) => brief(row.lag), by: (row) => Number(row.lag) },
  { id: "in", title: "in", number: true, cell: (row) => rate(row.arriving), by: (row) => row.arriving },
  { id: "read", title: "read", number: true, cell: (row) => rate(row.rowsPerSecond), by: (row) => row.rowsPerSecond },
  { id: "can", title: "can do", number: true, cell: (row) => (row.trueRate ? rate(row.trueRate) : "–"), by: (row) => row.trueRate },
  { id: "needs", title: "must do", number: true, cell: (row) => (row.neededRate ? rate(row.neededRate) : "–"), by: (row) => row.neededRate },
  { id: "clears", title: "caught up in", number: true, cell: (row) => seconds(row.catchUp), by: (row) => row.catchUp },
  { id: "batch", title: "batch", number: true, cell: (row) => seconds(row.batchSeconds), by: (row) => row.batchSeconds },
  { id: "slowest", title: "slowest bucket", cell: (row) => (row.slowest ? <><Text of={row.slowest} /> <span class="dim">{row.skew.toFixed(1)} × the mean</span></> : "–"), by: (row) => row.skew },
];

/** The autosizer's limits, what it concludes and out of which lane's load. */
function reasoning(job: string, { limits, verdict }: Found): [string, ComponentChildren][] {
  if (!limits || !verdict) return [["autosizer", "off"]];
  const facts: [string, ComponentChildren][] = [
    ["autosizer", <Text of={verdict.why} />],
    ["its limits", `factor ${limits.min} to ${limits.max}, functions busy at most ${percent(limits.targetBusy)}, ${seconds(limits.cooldownSeconds)} between changes`],
  ];
  if (verdict.lane)
    facts.push([
      "neediest lane",
      <>
        <a href={link(["jobs", job, "lanes", verdict.lane])}><Text of={verdict.lane} /></a>
        {verdict.load > 0 && ` must do ${verdict.load.toFixed(1)} × what it can`}
      </>,
    ]);
  return facts;
}

export function Sizing({ job }: { job: string }) {
  const found = useResource<Found>(jobPath(job, "/sizing"), 5_000);
  return (
    <>
      <h1>Sizing</h1>
      <Loaded of={found}>
        {(data) => (
          <>
            <Panel title="What the coordinator makes of it">
              <Facts
                of={[
                  ["factor", `${data.factor}; may be ${data.allowed.join(", ")}`],
                  ["containers", count(data.containers)],
                  ["figures ask for", data.proposed ? `factor ${data.proposed}${data.proposed === data.factor ? ", as it is" : ""}` : "they say nothing yet"],
                  ["target", `no lag older than ${seconds(data.targetLagSeconds)}`],
                  ...reasoning(job, data),
                ]}
              />
              {data.advice.length > 0 && (
                <ul>
                  {data.advice.map((each) => (
                    <li key={each}>
                      <Text of={each} />
                    </li>
                  ))}
                </ul>
              )}
              {mayChange() && data.proposed > 0 && data.proposed !== data.factor && (
                <p>
                  <a href={link(["jobs", job, "changes", "new"], { kind: "scale", factor: String(data.proposed) })}>plan factor {data.proposed}</a>
                </p>
              )}
              <Command of={["sizing", job]} />
            </Panel>
            {data.forecasts.length > 1 && <Forecasts job={job} of={data} />}
            <Decisions job={job} on={data.autoscale !== ""} />
            <Panel title="Lanes">
              <Table
                name="lanes"
                caption="How lanes cope"
                sort="-busy"
                columns={columns(job)}
                rows={data.lanes}
                id={(row) => row.lane}
                text={(row) => `${row.lane} ${row.seat} ${row.slowest}`}
                empty="No lane runs."
              />
            </Panel>
          </>
        )}
      </Loaded>
    </>
  );
}

/** With the load as it is. */
function Forecasts({ job, of }: { job: string; of: Found }) {
  const columns: Column<FactorForecast>[] = [
    { id: "factor", title: "factor", number: true, cell: (row) => row.factor, by: (row) => row.factor },
    {
      id: "is",
      title: "",
      cell: (row) =>
        row.factor === of.factor ? (
          "as it is"
        ) : (
          <>
            {row.factor === of.proposed && "what figures ask for "}
            {mayChange() && <a href={link(["jobs", job, "changes", "new"], { kind: "scale", factor: String(row.factor) })}>plan it</a>}
          </>
        ),
    },
    { id: "busy", title: "busy", cell: (row) => <><Bar part={Math.min(1, row.utilisation)} label={`busy ${percent(row.utilisation)}`} /> {percent(row.utilisation)}</>, by: (row) => row.utilisation },
    { id: "clears", title: "caught up in", number: true, cell: (row) => (row.catchUp === null ? "never" : seconds(row.catchUp)), by: (row) => row.catchUp ?? Infinity },
    { id: "lane", title: "limited by", cell: (row) => <a href={link(["jobs", job, "lanes", row.lane])}><Text of={row.lane} /></a>, by: (row) => row.lane },
  ];
  return (
    <Panel title="What each factor would give" note="the busiest lane and the longest wait, with the load as it is; with the pause of the change where records wait">
      <Table
        name="factors"
        prefix="f"
        caption="What each factor would give"
        columns={columns}
        rows={of.forecasts}
        id={(row) => String(row.factor)}
        empty="Nothing is known yet."
      />
    </Panel>
  );
}

/** What the autosizer did, and out of which figures; what it says now stands above. */
function Decisions({ job, on }: { job: string; on: boolean }) {
  const found = useResource<{ events: JobEvent[] }>(jobPath(job, "/events?limit=50&kind=autoscale"), 10_000);
  return (
    <Panel title="What the autosizer did">
      <Loaded of={found}>
        {({ events }) =>
          events.length === 0 ? (
            <Empty>{on ? "Nothing so far." : "Nothing: it is off. [job.autoscale] turns it on, within limits."}</Empty>
          ) : (
            <ul class="log">
              {[...events].reverse().map((each) => (
                <li key={each.id}>
                  <a href={link(["jobs", job, "events"], { event: String(each.id) })}><Moment ms={each.at * 1000} /></a> <Text of={each.what} />
                  {each.why && <>: <Text of={each.why} /></>}
                </li>
              ))}
            </ul>
          )
        }
      </Loaded>
    </Panel>
  );
}
