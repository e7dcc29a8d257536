// Changes: what did they do, and how long did they take? A new one begins with a plan.

import type { ComponentChildren } from "preact";
import { BothZones, Command, Empty, Facts, Loaded, Moment, Panel, Status, Text } from "../parts/basics";
import { Table } from "../parts/table";
import { jobPath, liveOf } from "../data";
import { count, counted, seconds } from "../format";
import { PERIOD, useResource } from "../poll";
import { link, route } from "../router";
import type { Change, UnderWay } from "../types";
import { mayChange } from "../session";
import { Planning } from "./planning";
import { KINDS } from "./requests";

export function Changes({ job }: { job: string }) {
  const [, , , which] = route.value.path;
  if (which === "new") return <Planning job={job} />;
  return which ? <Detail job={job} which={which} /> : <All job={job} />;
}

function All({ job }: { job: string }) {
  const live = liveOf(job);
  const found = useResource<{ changes: Change[] }>(jobPath(job, "/changes?limit=200"), PERIOD);
  const allowed = mayChange();
  return (
    <>
      <h1>Changes</h1>
      {allowed ? (
        <nav class="kinds" aria-label="plan a change">
          <span>Plan one, nothing happens yet:</span>
          {KINDS.map(([kind, title]) => (
            <a key={kind} class="button" href={link(["jobs", job, "changes", "new"], { kind })}>
              {title}
            </a>
          ))}
        </nav>
      ) : (
        <p class="dim">This token may only read: nothing can be changed here.</p>
      )}
      <Loaded of={live}>{(data) => (data.change ? <Following of={data.change} at={data.at} /> : null)}</Loaded>
      <Panel title="What was changed">
        <Loaded of={found} >
          {({ changes }) => (
            <>
            <Table
              name="changes"
              caption="Changes, the newest first"
              columns={[
                { id: "began", title: "began", cell: (row) => <a href={link(["jobs", job, "changes", nameOf(row)])}><Moment ms={row.began * 1000} /></a>, by: (row) => row.began },
                { id: "kind", title: "kind", cell: (row) => <Text of={row.kind} />, by: (row) => row.kind },
                { id: "outcome", title: "outcome", cell: (row) => <Status of={row.outcome} />, by: (row) => row.outcome },
                { id: "predicted", title: "pause predicted", number: true, cell: (row) => seconds(row.predictedPause), by: (row) => row.predictedPause },
                { id: "measured", title: "measured", number: true, cell: measured, by: (row) => row.measuredPause },
                { id: "took", title: "took", number: true, cell: (row) => seconds(row.seconds), by: (row) => row.seconds },
                { id: "who", title: "who", cell: (row) => <Text of={row.who} />, by: (row) => row.who },
                { id: "why", title: "why", wide: true, cell: (row) => <Text of={row.reason || row.why} /> },
              ]}
              rows={changes}
              id={nameOf}
              text={(row) => `${row.kind} ${row.who} ${row.why} ${row.reason}`}
              empty="The job runs as it was started."
            />
            <Scatter of={changes} />
            </>
          )}
        </Loaded>
        <p class="dim">
          Drains aren't in this list: <a href={link(["jobs", job, "drain"])}>the drain's page</a>,{" "}
          <a href={link(["jobs", job, "events"], { kind: "drain" })}>events of drains</a>
        </p>
      </Panel>
    </>
  );
}

const SIDE = 180;
const NEAR = { share: 0.3, seconds: 0.5 };

/** Predicted against measured pauses: on the line, a prediction came true. The table above has the figures. */
function Scatter({ of }: { of: Change[] }) {
  const known = of.flatMap((each) => (each.predictedPause !== null && each.measuredPause ? [[each.predictedPause, each.measuredPause] as const] : []));
  if (known.length < 2) return null;
  const most = Math.max(...known.flat());
  const place = (value: number) => 10 + (SIDE - 20) * (value / most);
  const near = known.filter(([predicted, measured]) => Math.abs(predicted - measured) <= Math.max(NEAR.seconds, NEAR.share * measured)).length;
  const sentence = `${near} of ${counted(known.length, "pause")} came within 30 % or 0.5 s of the prediction; the longest was ${seconds(most)}`;
  return (
    <figure class="scatter">
      <svg viewBox={`0 0 ${SIDE} ${SIDE}`} width={SIDE} height={SIDE} role="img" aria-label={sentence}>
        <line x1={place(0)} y1={SIDE - place(0)} x2={place(most)} y2={SIDE - place(most)} />
        {known.map(([predicted, measured], at) => (
          <circle key={at} cx={place(predicted)} cy={SIDE - place(measured)} r="3.5" />
        ))}
      </svg>
      <figcaption class="dim">measured (up) against predicted (right): {sentence}</figcaption>
    </figure>
  );
}

/** A pause is known once all new lanes have written something. */
export function measured(of: Change): string {
  return of.measuredPause === null && of.outcome === "done" ? "not known yet" : seconds(of.measuredPause);
}

function nameOf(of: Change): string {
  return String(of.id);
}

export function Following({ of, at }: { of: UnderWay; at: number }) {
  return (
    <Panel title="Under way">
      <p>
        <Status of="changing" /> to generation {of.generation} · {seconds(Math.max(0, at - of.began))} so far
      </p>
      <Facts
        of={[
          ["closed", `${count(of.closed)} of ${counted(of.closing.length, "lane")}`],
          ["running", `${count(of.running)} of ${counted(of.starting.length, "new lane")}`],
          ["predicted pause", seconds(of.predicted)],
        ]}
      />
    </Panel>
  );
}

function Detail({ job, which }: { job: string; which: string }) {
  const found = useResource<{ changes: Change[] }>(jobPath(job, "/changes?limit=200"), PERIOD);
  return (
    <>
      <h1>
        Change <Text of={which} />
      </h1>
      <p>
        <a href={link(["jobs", job, "changes"])}>all changes</a>
      </p>
      <Loaded of={found}>
        {({ changes }) => {
          const of = changes.find((each) => nameOf(each) === which);
          return of ? <Record job={job} of={of} /> : <Empty>It isn't among the last {counted(changes.length, "change")} of the job.</Empty>;
        }}
      </Loaded>
    </>
  );
}

function Record({ job, of }: { job: string; of: Change }) {
  return (
    <>
      <Facts
        of={[
          ["outcome", <><Status of={of.outcome} /> {of.reason && <Text of={of.reason} />}</>],
          ["kind", <Text of={of.kind} />],
          ["who", <Text of={of.who} />],
          ["why", <Text of={of.why} />],
          ["to", `generation ${of.generation} of deployment ${of.deployment}`],
          ["began", <BothZones ms={of.began * 1000} />],
          ["took", of.ended === null ? "it isn't over" : seconds(of.seconds)],
          ["lanes", `closed ${count(of.closing)}, started ${count(of.starting)}`],
        ]}
      />
      <Panel title="Pause in the output" note="by the coordinator's own clock, ± a trip over the network">
        <Facts
          of={[
            ["predicted", seconds(of.predictedPause)],
            ["measured", of.measuredPause === null ? "not known: not all followers have written yet" : of.measuredPause === 0 ? "no records arrived meanwhile" : seconds(of.measuredPause)],
            ...(of.pausedLane ? [["longest for", <a href={link(["jobs", job, "lanes", of.pausedLane])}>lane <Text of={of.pausedLane} /></a>] as [string, ComponentChildren]] : []),
          ]}
        />
      </Panel>
      <p>
        <a href={link(["jobs", job, "matrix"], { by: "moves", deployment: String(of.deployment), generation: String(of.generation || 1) })}>what it moved</a> ·{" "}
        <a href={link(["jobs", job, "lanes"], { view: "timeline", from: utc(of.began - 300), to: utc((of.ended ?? of.began) + 300) })}>its lanes through time</a> ·{" "}
        <a href={link(["jobs", job, "events"], { from: utc(of.began), to: of.ended === null ? "" : utc(of.ended + 1) })}>events of that time</a>
      </p>
      <Command of={["events", job]} />
    </>
  );
}

function utc(at: number): string {
  return `${new Date(Math.floor(at) * 1000).toISOString().slice(0, 19)}Z`;
}
