// Who has what: the job model by partition and seat. Pure, so that tests and drawing share it.

import { inOrder as byName } from "../format";
import type { JobModel, StageMoves } from "../types";

export interface Seat {
  seat: string;
  rack: string | null;
}

export interface Placement {
  stage: string;
  factor: number;
  seats: Seat[];
  /** Names of tasks at factor 1, in the model's order. */
  partitions: string[];
  /** For each of them: seat and number of buckets, by turns. */
  cells: Uint32Array[];
  tasks: number;
  /** For each partition of which something moves: the seat before and after (-1: none) and how many buckets, by turns. */
  moves?: Map<number, number[]>;
}

/** A stage as it is after a change, with what moves; seats by rack, as ever. */
export function placementAfter(of: StageMoves, racks: Map<string, string | null>): Placement {
  const order = of.seats.map((seat, at) => ({ seat, rack: racks.get(seat) ?? of.racks[at] ?? null, at })).sort(inOrder);
  const places = new Map(order.map(({ at }, place) => [at, place]));
  const cells: number[][] = of.partitions.map(() => []);
  for (const [partition, seat, buckets] of of.cells) cells[partition]!.push(places.get(seat)!, buckets);
  const moves = new Map<number, number[]>();
  for (const [partition, from, to, buckets] of of.moves) {
    const its = moves.get(partition) ?? [];
    its.push(places.get(from) ?? -1, places.get(to) ?? -1, buckets);
    moves.set(partition, its);
  }
  return {
    stage: of.stage,
    factor: of.buckets,
    seats: order.map(({ seat, rack }) => ({ seat, rack })),
    partitions: of.partitions,
    cells: cells.map((each) => Uint32Array.from(each)),
    tasks: of.partitions.length * of.buckets,
    moves,
  };
}

/** The task at factor 1 that a virtual task was cut from: Partition_3 for Partition_3-1-8. */
export function whole(task: string): string {
  return task.replace(/-\d+-\d+$/, "");
}

/** By rack and then by number, so that the containers of a rack stand together. */
export function inOrder(one: Seat, other: Seat): number {
  const racks = one.rack === null || other.rack === null ? Number(one.rack === null) - Number(other.rack === null) : byName(one.rack, other.rack);
  return racks || byName(one.seat, other.seat);
}

export function placement(model: JobModel, stage: string, racks: Map<string, string | null>): Placement {
  const of = model.stages.find((each) => each.stage === stage) ?? model.stages[0];
  const seats = model.containers
    .map((each) => ({ seat: each.seat, rack: racks.get(each.seat) ?? each.rack, tasks: each.tasks[of?.stage ?? ""] ?? [] }))
    .sort(inOrder);
  const numbers = new Map<string, number>();
  for (const task of of?.tasks ?? []) {
    const name = whole(task.name);
    if (!numbers.has(name)) numbers.set(name, numbers.size);
  }
  const found: Map<number, number>[] = Array.from(numbers, () => new Map<number, number>());
  seats.forEach(({ tasks }, seat) => {
    for (const task of tasks) {
      const row = found[numbers.get(whole(task)) ?? -1];
      row?.set(seat, (row.get(seat) ?? 0) + 1);
    }
  });
  return {
    stage: of?.stage ?? "",
    factor: model.factor,
    seats: seats.map(({ seat, rack }) => ({ seat, rack })),
    partitions: [...numbers.keys()],
    cells: found.map((row) => Uint32Array.from([...row].flat())),
    tasks: of?.tasks.length ?? 0,
  };
}
