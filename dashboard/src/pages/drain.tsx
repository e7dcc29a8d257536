// Drain: how far is it, and what does it wait for?

import { Bar, Command, Empty, Loaded, Panel, Status, Text } from "../parts/basics";
import { jobPath, liveOf } from "../data";
import { count, inOrder, percent } from "../format";
import { PERIOD, useResource } from "../poll";
import { link, route, setQuery } from "../router";
import { mayChange } from "../session";
import { Early } from "./early";
import type { DrainProgress, JobStatus, LaneReport } from "../types";

type Row = JobStatus["lanes"][0];

interface Stage {
  stage: string;
  lanes: number;
  halted: number;
  drained: number;
  left: number;
  windows: number;
}

/** How far each stage is, in the order in which they drain. */
export function stagesOf(lanes: Row[], drain: DrainProgress): Stage[] {
  const stages = new Map<string, Stage>();
  for (const { lane, report } of lanes) {
    if (lane.state === "closed") continue;
    const of = stages.get(lane.stage) ?? { stage: lane.stage, lanes: 0, halted: 0, drained: 0, left: 0, windows: 0 };
    of.lanes += 1;
    of.halted += report?.drain.halted === drain.notification.uuid ? 1 : 0;
    of.drained += report?.drain.drained ? 1 : 0;
    of.left += report ? left(report, drain.until ?? {}) : 0;
    of.windows += report?.drain.windows ?? 0;
    stages.set(lane.stage, of);
  }
  return [...stages.values()].sort((one, other) => inOrder(one.stage, other.stage));
}

function left(report: LaneReport, until: DrainProgress["ends"]): number {
  return Object.entries(report.progress.positions).reduce(
    (sum, [ssp, position]) => sum + Math.max(0, Number(until[ssp] ?? report.progress.ends[ssp] ?? 0) - Number(position)),
    0,
  );
}

export function Drain({ job }: { job: string }) {
  const live = liveOf(job);
  const status = useResource<JobStatus>(jobPath(job), PERIOD);
  const { early = "" } = route.value.query;
  return (
    <>
      <h1>Drain</h1>
      <Loaded of={live}>
        {({ drain, state }) => (
          <>
            {drain === null ? (
            <Panel title={state === "drained" ? "The job is drained" : "No drain is under way"}>
              <Empty>
                {state === "drained"
                  ? "All that it had taken in is processed, and all windows are out."
                  : "A drain finishes what the job has taken in, emits all windows and timers, and ends it."}
              </Empty>
              {mayChange() && (
                <p>
                  <a href={link(["jobs", job, "changes", "new"], { kind: "drain" })}>plan a drain</a>
                </p>
              )}
              <Command line={`anabranch drain ${job}`} />
            </Panel>
          ) : (
            <Loaded of={status}>{(found) => <Progress job={job} drain={drain} lanes={found.lanes} />}</Loaded>
            )}
            {early === "1" || state === "drained" || drain?.last ? (
              <Early job={job} />
            ) : (
              <p>
                <button type="button" onClick={() => setQuery({ early: "1" }, true)}>
                  what came out early in the last drain
                </button>
              </p>
            )}
          </>
        )}
      </Loaded>
    </>
  );
}

function Progress({ job, drain, lanes }: { job: string; drain: DrainProgress; lanes: Row[] }) {
  const stages = stagesOf(lanes, drain);
  const stuck = lanes.filter((each) => each.report?.drain.stuck);
  return (
    <Panel
      title={`Up to ${drain.notification.mode === "latest" ? "the latest records of then" : "what was planned"}`}
      note={drain.last ? "time has ended: it can't be taken back any more" : "can be taken back until time ends"}
    >
      <table>
        <caption class="unseen">How far each stage is</caption>
        <thead>
          <tr>
            <th scope="col">stage</th>
            <th scope="col">halted</th>
            <th scope="col">time ended</th>
            <th scope="col">drained</th>
            <th scope="col" class="number">records left</th>
            <th scope="col" class="number">windows open</th>
          </tr>
        </thead>
        <tbody>
          {stages.map((each) => (
            <tr key={each.stage} data-row={each.stage}>
              <th scope="row"><Text of={each.stage} /></th>
              <td><Of part={each.halted} whole={each.lanes} what="halted" /></td>
              <td>{drain.last ? <Status of="done" /> : <Status of="open" />}</td>
              <td><Of part={each.drained} whole={each.lanes} what="drained" /></td>
              <td class="number">{count(each.left)}</td>
              <td class="number">{count(each.windows)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {!drain.last && mayChange() && (
        <p>
          <a class="button" href={link(["jobs", job, "changes", "new"], { kind: "cancel" })}>
            take it back
          </a>
        </p>
      )}
      {stuck.map(({ lane, report }) => (
        <p key={lane.id}>
          <Status of={report!.drain.overdue ? "failed" : "attention"} /> lane{" "}
          <a href={link(["jobs", job, "lanes", lane.id])}><Text of={lane.id} /></a>: <Text of={report!.drain.stuck} />
        </p>
      ))}
      {lanes.filter((each) => each.report?.attempt.waits).map(({ lane, report }) => (
        <p key={lane.id}>
          lane <Text of={lane.id} /> waits: <Text of={report!.attempt.waits} />
        </p>
      ))}
    </Panel>
  );
}

function Of({ part, whole, what }: { part: number; whole: number; what: string }) {
  return (
    <>
      <Bar part={whole ? part / whole : null} label={`${part} of ${whole} lanes ${what} (${percent(whole ? part / whole : null)})`} /> {part}/{whole}
      {part === whole && whole > 0 && " ✓"}
    </>
  );
}
