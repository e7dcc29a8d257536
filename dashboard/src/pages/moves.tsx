// What moves: a plan, or a change that was made, over the matrix. Hollow: buckets leave; filled: they arrive.

import { useEffect, useState } from "preact/hooks";
import { ApiError, post } from "../api";
import { Command, Empty, Loaded, Problem, Text } from "../parts/basics";
import { Table } from "../parts/table";
import { jobPath } from "../data";
import { count, counted } from "../format";
import { useResource } from "../poll";
import { link, route } from "../router";
import { mayChange } from "../session";
import type { Live, Moves, StageMoves } from "../types";
import type { ComponentChildren } from "preact";
import { commandOf, movingKind, type MovingKind, requestOf } from "./requests";

type Show = (of: StageMoves[], sentence: ComponentChildren) => ComponentChildren;

/** Of the plan in the address, or of the change there; without either, of the last change. */
export function WithMoves({ job, live, children }: { job: string; live: Live; children: Show }) {
  const { kind = "", deployment = "", generation = "" } = route.value.query;
  const moving = movingKind(kind);
  return moving ? <OfPlan job={job} kind={moving} live={live}>{children}</OfPlan> : <OfChange job={job} deployment={deployment} generation={generation} live={live}>{children}</OfChange>;
}

function OfChange({ job, deployment, generation, live, children }: { job: string; deployment: string; generation: string; live: Live; children: Show }) {
  // What a change moved stays the same, and so is asked for once: the last change is the one to the present generation.
  const of = deployment || String(live.deployment);
  const number = generation || (of === String(live.deployment) ? String(live.generation) : "");
  const asked = new URLSearchParams({ deployment: of, ...(number && { generation: number }) });
  const found = useResource<Moves>(jobPath(job, `/moves?${asked}`), 0);
  const error = found.error.value;
  if (error?.status === 404 && !error.isUnknownCall) return <Empty><Text of={`${error.message}: ${error.cure}`} /></Empty>;
  return (
    <Loaded of={found} unknown="This coordinator doesn't say what moved.">
      {(data) =>
        children(
          data.stages,
          <>
            What moved when generation {data.generation} of deployment {data.deployment} began, after generation {data.former[1]} of deployment {data.former[0]}.{" "}
            <Command of={["show", "moves", job, "--deployment", String(data.deployment), "--generation", String(data.generation)]} />
          </>,
        )
      }
    </Loaded>
  );
}

function OfPlan({ job, kind, live, children }: { job: string; kind: MovingKind; live: Live; children: Show }) {
  const query = route.value.query;
  const wanted = requestOf(kind, query, live.deployment);
  const asked = JSON.stringify(wanted);
  const basis = `${live.deployment}.${live.generation}`;
  const [plan, setPlan] = useState<{ of: string; stages: StageMoves[] } | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const [again, setAgain] = useState(0);
  const its = `${kind} ${asked} ${basis}`;
  useEffect(() => {
    if (typeof wanted === "string" || !mayChange()) return undefined;
    let current = true;
    post<{ moves?: StageMoves[] }>(jobPath(job, `/${kind}`), { ...wanted, dry: true, brief: true, moves: true }).then(
      (found) => {
        if (!current) return;
        setPlan({ of: its, stages: found.moves ?? [] });
        setError(null);
      },
      (problem: unknown) => {
        if (current && problem instanceof ApiError) setError(problem);
      },
    );
    return () => {
      current = false;
    };
  }, [its, again]);
  if (!mayChange()) return <Empty>This token may only read, and so plans nothing; what earlier changes moved is shown to it, too.</Empty>;
  if (typeof wanted === "string") return <p class="dim">To plan it, {wanted}.</p>;
  if (error) return <Problem of={error} again={() => setAgain(again + 1)} />;
  if (plan?.of !== its) return <p role="status">planning …</p>;
  if (plan.stages.length === 0) return <Empty>Nothing changes: it is so already.</Empty>;
  return (
    <>
      {children(
        plan.stages,
        <>
          What this plan would move; nothing was done. <a href={link(["jobs", job, "changes", "new"], query.kind ? { kind, factor: query.factor, containers: query.containers } : {})}>the plan</a>{" "}
          <Command of={commandOf(job, kind, query, true)} />
        </>,
      )}
    </>
  );
}

export function total(of: StageMoves): number {
  return of.moves.reduce((sum, [, , , buckets]) => sum + buckets, 0);
}

export function sentenceOf(of: StageMoves): string {
  const all = of.partitions.length * of.buckets;
  const moving = new Set(of.moves.map(([partition]) => partition)).size;
  return of.moves.length === 0
    ? `nothing moves: each of ${counted(of.partitions.length, "partition")} stays where it is`
    : `${counted(total(of), "bucket")} of ${count(all)} move, of ${counted(moving, "partition")}`;
}

export function MovesTable({ of }: { of: StageMoves }) {
  const seat = (at: number) => (at < 0 ? null : of.seats[at]!);
  const rows = of.moves.map(([partition, from, to, buckets]) => ({ partition: of.partitions[partition]!, from: seat(from), to: seat(to), buckets }));
  return (
    <Table
      name="moves"
      caption="What moves from which container to which"
      columns={[
        { id: "partition", title: "partition", cell: (row) => <Text of={row.partition} />, by: (row) => row.partition },
        { id: "from", title: "from seat", cell: (row) => <Text of={row.from ?? "none: it is new"} />, by: (row) => row.from },
        { id: "to", title: "to seat", cell: (row) => <Text of={row.to ?? "none: it is gone"} />, by: (row) => row.to },
        { id: "buckets", title: `buckets of ${of.buckets}`, number: true, cell: (row) => count(row.buckets), by: (row) => row.buckets },
      ]}
      rows={rows}
      id={(row) => `${row.partition} ${row.from} ${row.to}`}
      text={(row) => `${row.partition} ${row.from ?? ""} ${row.to ?? ""}`}
      empty="Nothing moves: each partition stays where it is."
    />
  );
}
