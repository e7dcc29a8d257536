// Changes: what did they do, and how long did they take? A new one begins with a plan.

import { Command, Empty, Facts, Loaded, Moment, Panel, Status, Text } from "../parts/basics";
import { Table } from "../parts/table";
import { coordinator, jobPath, liveOf } from "../data";
import { count, seconds } from "../format";
import { PERIOD, useResource } from "../poll";
import { link, route } from "../router";
import type { Change, UnderWay } from "../types";
import { KINDS, Planning } from "./planning";

export function Changes({ job }: { job: string }) {
  const [, , , which] = route.value.path;
  if (which === "new") return <Planning job={job} />;
  return which ? <Detail job={job} which={which} /> : <All job={job} />;
}

/** Whether this page may change anything; the coordinator decides in the end. */
export function mayChange(): boolean {
  const known = coordinator().data.value;
  return known?.can?.includes("change") ?? true;
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
        <Loaded of={found} unknown="This coordinator keeps no record of changes: see the events.">
          {({ changes }) => (
            <Table
              name="changes"
              caption="Changes, the newest first"
              columns={[
                { id: "began", title: "began", cell: (row) => <a href={link(["jobs", job, "changes", nameOf(row)])}><Moment ms={row.began * 1000} /></a>, by: (row) => row.began },
                { id: "kind", title: "kind", cell: (row) => <Text of={row.kind} />, by: (row) => row.kind },
                { id: "outcome", title: "outcome", cell: (row) => <Status of={row.outcome} />, by: (row) => row.outcome },
                { id: "predicted", title: "pause predicted", number: true, cell: (row) => seconds(row.predicted?.pause), by: (row) => row.predicted?.pause },
                { id: "measured", title: "measured", number: true, cell: (row) => seconds(row.measured?.pause), by: (row) => row.measured?.pause },
                { id: "took", title: "took", number: true, cell: (row) => (row.ended === null ? "–" : seconds(row.ended - row.began)), by: (row) => (row.ended === null ? null : row.ended - row.began) },
                { id: "who", title: "who", cell: (row) => <Text of={row.who} />, by: (row) => row.who },
                { id: "why", title: "why", wide: true, cell: (row) => <Text of={row.reason || row.why} /> },
              ]}
              rows={changes}
              id={nameOf}
              text={(row) => `${row.kind} ${row.who} ${row.why} ${row.reason}`}
              empty="The job runs as it was started."
            />
          )}
        </Loaded>
      </Panel>
    </>
  );
}

function nameOf(of: Change): string {
  return `${of.deployment}.${of.generation}`;
}

export function Following({ of, at }: { of: UnderWay; at: number }) {
  return (
    <Panel title="Under way">
      <p>
        <Status of="changing" /> <Text of={of.kind ?? "change"} /> to generation {of.generation} · {seconds(Math.max(0, at - of.began))} so far
      </p>
      <Facts
        of={[
          ["closed", `${count(of.closed)} of ${count(of.closing.length)} lanes`],
          ["running", `${count(of.running)} of ${count(of.starting.length)} new lanes`],
          ["predicted pause", seconds(of.predicted)],
        ]}
      />
    </Panel>
  );
}

function Detail({ job, which }: { job: string; which: string }) {
  const found = useResource<Change>(jobPath(job, `/changes/${encodeURIComponent(which)}`), PERIOD);
  return (
    <>
      <h1>
        Change <Text of={which} />
      </h1>
      <p>
        <a href={link(["jobs", job, "changes"])}>all changes</a>
      </p>
      <Loaded of={found}>
        {(of) => (
          <>
            <Facts
              of={[
                ["outcome", <><Status of={of.outcome} /> {of.reason && <Text of={of.reason} />}</>],
                ["kind", <Text of={of.kind} />],
                ["who", <Text of={of.who} />],
                ["why", <Text of={of.why} />],
                ["asked for", <Text of={JSON.stringify(of.wish)} />],
                ["began", <Moment ms={of.began * 1000} />],
                ["took", of.ended === null ? "it isn't over" : seconds(of.ended - of.began)],
                ["lanes", of.predicted ? `closes ${count(of.predicted.closing)}, starts ${count(of.predicted.starting)}, moves ${count(of.predicted.moved)} tasks` : "–"],
              ]}
            />
            <Panel title="Pause in the output" note="by the coordinator's own clock, ± a trip over the network">
              <Facts
                of={[
                  ["predicted", seconds(of.predicted?.pause)],
                  ["measured", of.measured === null ? <Empty>Not known yet: no output of all followers was seen.</Empty> : seconds(of.measured.pause)],
                ]}
              />
              {of.measured && (
                <ul>
                  {Object.entries(of.measured.byLane).map(([lane, pause]) => (
                    <li key={lane}>
                      <a href={link(["jobs", job, "lanes", lane])}><Text of={lane} /></a>: {seconds(pause)}
                    </li>
                  ))}
                </ul>
              )}
            </Panel>
            <Command line={`anabranch events ${job}`} />
          </>
        )}
      </Loaded>
    </>
  );
}
