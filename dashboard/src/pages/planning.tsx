// A change, before it is made: its plan from the coordinator, the line that does the same, and only then "apply".

import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, lost, post } from "../api";
import { Command, Loaded, Panel, Problem } from "../parts/basics";
import { clockOf, jobPath, liveOf } from "../data";
import { shown } from "../format";
import { age, type Resource, STALE } from "../poll";
import { link, route, setQuery } from "../router";
import { mayChange, randomId } from "../session";
import type { Live } from "../types";
import { type Plan, Review, Typed, useApply } from "./review";
import { Nowhere } from "./nowhere";
import { commandOf, type Kind, KINDS, type PlannedKind, plannedKind, requestOf, type UnplannedKind, unplannedKind } from "./requests";

export function Planning({ job }: { job: string }) {
  const live = liveOf(job);
  const { kind: word = "scale", container = "" } = route.value.query;
  const kind = plannedKind(word) ?? unplannedKind(word);
  if (!kind || (kind === "fence" && !container.startsWith(`${job}:`))) return <Nowhere />;
  const title = KINDS.find(([each]) => each === kind)?.[1] ?? `${kind} ${shown(container)}`;
  return (
    <>
      <h1>Plan: {title}</h1>
      <p>
        <a href={link(["jobs", job, "changes"])}>all changes</a>
      </p>
      {mayChange() ? (
        <Loaded of={live}>{(data) => <Form job={job} kind={kind} live={data} of={live} key={kind} />}</Loaded>
      ) : (
        <p class="dim">This token may only read: nothing can be changed here.</p>
      )}
    </>
  );
}

const FACTORS = Array.from({ length: 11 }, (_, at) => 2 ** at);

function Form({ job, kind, live, of }: { job: string; kind: Kind; live: Live; of: Resource<Live> }) {
  const query = route.value.query;
  const planned = plannedKind(kind);
  const unplanned = unplannedKind(kind);
  return (
    <>
      <Panel title="What is wanted">
        <div class="tools">
          {kind === "scale" && (
            <>
              <label>
                factor {live.factor} →{" "}
                <select value={query.factor ?? ""} onChange={(event) => setQuery({ factor: event.currentTarget.value })}>
                  <option value="">as it is</option>
                  {FACTORS.map((each) => (
                    <option key={each} value={String(each)}>
                      {each}
                    </option>
                  ))}
                </select>
              </label>
              <label>
                containers {live.seats} →{" "}
                <input
                  type="number"
                  min="1"
                  value={query.containers ?? ""}
                  placeholder="as it is"
                  onInput={(event) => setQuery({ containers: event.currentTarget.value })}
                />
              </label>
            </>
          )}
          {kind === "rewind" && (
            <>
              <label>
                to{" "}
                <input value={query.to ?? ""} placeholder="earliest, or 2026-11-25T02:00:00+01:00" size={34} onInput={(event) => setQuery({ to: event.currentTarget.value })} />
              </label>
              <label>
                state{" "}
                <select value={query.state ?? ""} onChange={(event) => setQuery({ state: event.currentTarget.value })}>
                  <option value="">there is none</option>
                  <option value="keep">keep</option>
                  <option value="clear">clear</option>
                </select>
              </label>
            </>
          )}
          {kind === "drain" && (
            <label>
              takes in{" "}
              <select value={query.mode ?? "planned"} onChange={(event) => setQuery({ mode: event.currentTarget.value })}>
                <option value="planned">what is planned now</option>
                <option value="latest">all up to the latest record of now</option>
              </select>
            </label>
          )}
          {kind === "stop" && (
            <label>
              <input type="checkbox" checked={query.now === "1"} onChange={(event) => setQuery({ now: event.currentTarget.checked ? "1" : "" })} /> at once,
              without waiting for the batch boundary
            </label>
          )}
          {EXPLAINED[kind] && <span class="dim">{EXPLAINED[kind]}</span>}
        </div>
        <Command of={commandOf(job, kind, query)} />
      </Panel>
      {unplanned && <Unplanned job={job} kind={unplanned} of={of} now={query.now === "1"} container={query.container ?? ""} />}
      {planned && <Planned job={job} kind={planned} live={live} of={of} />}
    </>
  );
}

const EXPLAINED: Partial<Record<Kind, string>> = {
  scale:
    "The factor is the number of key buckets of each partition: functions work on several buckets at once, and containers can share a partition. The order of each key stays.",
  expand: "Adapts the job to partitions that were added to its inputs.",
  assign: "Moves tasks to where they should be by the racks as they are now.",
  rollback: "Lets the version before the present one follow it.",
  fence: "Takes the seat of a container away: its lanes are fenced, and another process goes on with them. What it would still write is refused.",
  cancel: "Takes back the change or the drain that is under way.",
};

/** Whether what is shown is so now: nothing is applied on old figures. */
function isCurrent(of: Resource<Live>): boolean {
  return lost.value === null && (age(of) ?? Infinity) < STALE && (of.data.value?.served ?? false);
}

interface UnplannedProps {
  job: string;
  kind: UnplannedKind;
  of: Resource<Live>;
  now: boolean;
  container: string;
}

const DOES: Record<UnplannedKind, string> = { stop: "Stop it", cancel: "Take it back", fence: "Take its seat away" };

function Unplanned({ job, kind, of, now, container }: UnplannedProps) {
  const [typed, setTyped] = useState("");
  const { state, ask, error } = useApply(job, kind, kind === "fence" ? `containers/${encodeURIComponent(container)}/fence` : undefined);
  const final = now || kind === "fence";
  const sure = !final || typed === job;
  return (
    <Panel title="Apply">
      {final && <Typed job={job} value={typed} onInput={setTyped} />}
      <button type="button" class="apply" disabled={state !== "idle" || !sure || !isCurrent(of)} onClick={() => void ask(kind === "fence" ? "?why=by+hand,+from+the+dashboard" : now ? "?now=1" : "", undefined)}>
        {DOES[kind]}
      </button>
      {error && <Problem of={error} />}
    </Panel>
  );
}

const RESTS = 400;

function Planned({ job, kind, live, of }: { job: string; kind: PlannedKind; live: Live; of: Resource<Live> }) {
  const query = route.value.query;
  const uuid = useRef(randomId());
  const wanted = requestOf(kind, { ...query, uuid: uuid.current }, live.deployment);
  const asked = JSON.stringify(wanted);
  const basis = `${live.deployment}.${live.generation}`;
  const [plan, setPlan] = useState<{ asked: string; basis: string; plan: Plan; at: number } | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const [again, setAgain] = useState(0);

  useEffect(() => {
    if (typeof wanted === "string") return undefined;
    let current = true;
    const timer = setTimeout(() => {
      post<Plan>(jobPath(job, `/${kind}`), { ...wanted, dry: true, brief: true }).then(
        (found) => {
          if (!current) return;
          setPlan({ asked, basis, plan: found, at: 1000 * (clockOf(of) ?? live.at) });
          setError(null);
        },
        (problem: unknown) => {
          if (current && problem instanceof ApiError) setError(problem);
        },
      );
    }, RESTS);
    return () => {
      current = false;
      clearTimeout(timer);
    };
  }, [asked, basis, again]);

  if (typeof wanted === "string") return <p class="dim">To plan it, {wanted}.</p>;
  const fits = plan !== null && plan.asked === asked;
  return (
    <>
      {error && <Problem of={error} again={() => setAgain(again + 1)} />}
      {fits && !error && (
        <Review job={job} kind={kind} plan={plan.plan} at={plan.at} wanted={wanted} current={plan.basis === basis && isCurrent(of)} again={() => setAgain(again + 1)} />
      )}
      {!fits && !error && <p role="status">planning …</p>}
    </>
  );
}
