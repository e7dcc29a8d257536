// Drain: how far is it, and what does it wait for?

import { Bar, Command, Empty, Loaded, Panel, Status, Text } from "../parts/basics";
import { liveOf } from "../data";
import { count, percent } from "../format";
import { link, route, setQuery } from "../router";
import { mayChange } from "../session";
import { Early } from "./early";
import type { DrainProgress, Live } from "../types";

export function Drain({ job }: { job: string }) {
  const live = liveOf(job);
  const { early = "" } = route.value.query;
  return (
    <>
      <h1>Drain</h1>
      <Loaded of={live}>
        {({ drain, state, stages, heldUp }) => (
          <>
            {drain === null ? (
            <Panel title={state === "drained" ? "The job is drained" : "No drain is under way"}>
              <Empty>
                {state === "drained"
                  ? "All that it had taken in is processed, and all windows are out."
                  : "A drain finishes what the job has taken in, emits all windows and timers, and ends it."}
              </Empty>
              {mayChange() && state !== "drained" && (
                <p>
                  <a href={link(["jobs", job, "changes", "new"], { kind: "drain" })}>plan a drain</a>
                </p>
              )}
              {state !== "drained" && <Command of={["drain", job]} />}
            </Panel>
          ) : (
            <Progress job={job} drain={drain} stages={stages} heldUp={heldUp} />
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

function Progress({ job, drain, stages, heldUp }: { job: string; drain: DrainProgress } & Pick<Live, "stages" | "heldUp">) {
  return (
    <Panel
      title={`Up to ${drain.notification.mode === "latest" ? "the latest records of then" : "what was planned"}`}
      note={drain.last ? "time has ended: it can't be taken back any more" : "can be taken back until time ends, which emits the open windows"}
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
              <td class="number">{count(each.records)}</td>
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
      {heldUp.filter((each) => each.stuck).map(({ lane, stuck, overdue }) => (
        <p key={lane}>
          <Status of={overdue ? "failed" : "attention"} /> lane{" "}
          <a href={link(["jobs", job, "lanes", lane])}><Text of={lane} /></a>: <Text of={stuck} />
        </p>
      ))}
      {heldUp.filter((each) => each.waits).map(({ lane, waits }) => (
        <p key={lane}>
          lane <Text of={lane} /> waits: <Text of={waits} />
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
