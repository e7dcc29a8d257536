// A job: is it healthy, and what holds it back?

import { Empty, Facts, Loaded, Moment, Panel, Status, Text } from "../parts/basics";
import { isAlive, jobPath, liveOf, overview, rests } from "../data";
import { brief, count, counted, percent, rate, seconds } from "../format";
import { PERIOD, useResource } from "../poll";
import { link } from "../router";
import type { Change, Finding, Live } from "../types";
import { Plots } from "../parts/plots";
import { Promises } from "./promises";
import { measured } from "./changes";
import { trend } from "./jobs";

export function Overview({ job }: { job: string }) {
  const live = liveOf(job);
  return (
    <>
      <h1>
        <Text of={job} />
      </h1>
      <Findings job={job} />
      <Loaded of={live}>{(data) => <Figures live={data} />}</Loaded>
      <Plots job={job} />
      <Loaded of={live}>{(data) => <LastChange job={job} live={data} />}</Loaded>
      <Promises job={job} />
    </>
  );
}

const words: Record<string, string> = { failed: "failed", attention: "attention", notice: "notice" };

function Findings({ job }: { job: string }) {
  const found = useResource<{ findings: Finding[] }>(jobPath(job, "/findings"), PERIOD);
  return (
    <Panel title="What holds it back">
      <Loaded of={found} unknown="This coordinator makes no findings yet: see lanes, containers and events.">
        {({ findings }) =>
          findings.length === 0 ? (
            <Empty>Nothing that the coordinator knows of.</Empty>
          ) : (
            <ol class="findings">
              {findings.map((each) => (
                <li key={`${each.rule} ${JSON.stringify(each.subject)}`}>
                  <Status of={words[each.severity] ?? each.severity} /> <Text of={each.what} />
                  {each.why && (
                    <span class="dim">
                      {" "}
                      <Text of={each.why} />
                    </span>
                  )}{" "}
                  <Subject job={job} of={each.subject} />
                  {each.since !== null && (
                    <span class="dim">
                      {" "}
                      since <Moment ms={each.since * 1000} day={false} />
                    </span>
                  )}
                  {each.cure && (
                    <div class="cure">
                      <Text of={each.cure} />
                    </div>
                  )}
                </li>
              ))}
            </ol>
          )
        }
      </Loaded>
    </Panel>
  );
}

function Subject({ job, of }: { job: string; of: Record<string, string> }) {
  if (of.ssp) return <a href={link(["jobs", job, "partitions"], { find: of.ssp.replace(/#\d+$/, "") })}>→ partition</a>;
  if (of.lane) return <a href={link(["jobs", job, "lanes", of.lane])}>→ lane</a>;
  if (of.container || of.seat) return <a href={link(["jobs", job, "containers"])}>→ containers</a>;
  if (of.stream) return <a href={link(["jobs", job, "dead-letters"], { stream: of.stream })}>→ stream</a>;
  return null;
}

function worst(values: (number | null)[]): number | null {
  const known = values.filter((each): each is number => each !== null);
  return known.length ? Math.max(...known) : null;
}

function total(values: (number | string | null)[]): number | null {
  const known = values.filter((each) => each !== null).map(Number);
  return known.length ? known.reduce((sum, each) => sum + each, 0) : null;
}

function Figures({ live }: { live: Live }) {
  const job = overview().data.value?.jobs.find((each) => each.job === live.job);
  const alive = live.containers.filter(isAlive);
  const failed = live.lanes.filter((each) => each.state === "failed");
  return (
    <>
      {live.error && live.state !== "failed" && (
        <div class="problem">
          <Status of="failed" /> <Text of={live.error} />
        </div>
      )}
      {live.warnings.map((each) => (
        <div class="banner" key={each}>
          <span aria-hidden="true">▲ </span>
          <Text of={each} />
        </div>
      ))}
      <ul class="figures">
        <Figure name="lag" value={`${brief(total(live.lanes.map((each) => each.lag)))}${trend(job?.lagTrend ?? null)}`} note="offsets behind the ends of its inputs" />
        <Figure name="in" value={rate(total(live.lanes.map((each) => each.arriving)))} note="records that arrive" />
        <Figure name="read" value={rate(total(live.lanes.map((each) => each.rate)))} note="records that it reads" />
        <Figure name="busy" value={percent(worst(live.lanes.map((each) => each.busy)))} note="of the busiest lane" />
        <Figure name="functions" value={percent(worst(live.lanes.map((each) => each.working)))} note="of the busiest bucket" />
        <Figure name="dead letters" value={brief(total(live.lanes.map((each) => each.deadLetters)))} note="of the open lanes, since they were started" />
        <Figure name="late" value={brief(total(live.lanes.map((each) => each.late)))} note="rows, since lanes started" />
      </ul>
      <Facts
        of={[
          ["state", <><Status of={live.state} />{live.since !== null && <span class="dim"> since <Moment ms={live.since * 1000} /></span>}</>],
          ["containers", live.served ? `${alive.length} of ${live.seats}, ${counted(live.resting.length, "stands by", "stand by")}` : rests(live.state) ? "none: the job doesn't run" : `not known here; ${live.seats} wanted`],
          ["lanes", <>{count(live.lanes.length)} open{failed.length > 0 && <>, <a href={link(["jobs", live.job, "lanes"], { state: "failed" })}>{count(failed.length)} failed</a></>}</>],
          ["deployment", `${live.deployment}, generation ${live.generation}, factor ${live.factor}`],
        ]}
      />
      {live.launching && <Launching of={live.launching} />}
    </>
  );
}

function Figure({ name, value, note }: { name: string; value: string; note: string }) {
  return (
    <li title={note}>
      <span class="dim">{name}</span>
      <strong>{value}</strong>
    </li>
  );
}

function Launching({ of }: { of: NonNullable<Live["launching"]> }) {
  if (!of.gaveUp && of.failures === 0) return null;
  return (
    <div class="problem">
      <Status of={of.gaveUp ? "failed" : "attention"} /> The launcher {of.gaveUp ? "gave up" : `failed ${counted(of.failures, "time")} in a row`}:{" "}
      <Text of={of.reason} /> <span class="dim">(what containers said: <Text of={of.logs} />)</span>
    </div>
  );
}

function LastChange({ job, live }: { job: string; live: Live }) {
  const found = useResource<{ changes: Change[] }>(jobPath(job, "/changes?limit=1"), PERIOD);
  const last = found.data.value?.changes[0];
  if (live.change) {
    const { closing, closed, starting, running, predicted, began } = live.change;
    return (
      <Panel title="Change under way">
        <p>
          <Status of="changing" /> {seconds(Math.max(0, live.at - began))} so far · closing {closed}/{closing.length} · starting {running}/{starting.length} ·
          predicted pause {seconds(predicted)} · <a href={link(["jobs", job, "changes"])}>details</a>
        </p>
      </Panel>
    );
  }
  if (!last) return null;
  return (
    <Panel title="Last change">
      <p>
        <Moment ms={last.began * 1000} /> <Status of={last.outcome} /> <Text of={last.kind} /> by <Text of={last.who} /> · pause predicted {seconds(last.predictedPause)},
        measured {measured(last)}
        {last.seconds !== null && <> · took {seconds(last.seconds)}</>} · <a href={link(["jobs", job, "changes", String(last.id)])}>details</a>
      </p>
    </Panel>
  );
}
