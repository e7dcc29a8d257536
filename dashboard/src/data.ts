// The resources that several pages share.

import { computed, type ReadonlySignal } from "@preact/signals";
import { clock, PERIOD, type Resource, useResource } from "./poll";
import { job } from "./router";
import { type Columns, type CoordinatorInfo, type Live, type LiveContainer, type Overview, records } from "./types";

type Tables = "lanes" | "containers" | "resting" | "copies" | "stages" | "heldUp";
type Wire = Omit<Live, Tables> & Record<Tables, Columns>;

export function jobPath(job: string, rest = ""): string {
  return `jobs/${encodeURIComponent(job)}${rest}`;
}

/** All jobs: every two seconds where they are listed, more seldom where one is looked at. */
export function overview(): Resource<Overview> {
  return useResource<Overview>("overview", job.value === null ? PERIOD : 6_000);
}

export function coordinator(): Resource<CoordinatorInfo> {
  return useResource<CoordinatorInfo>("coordinator", 10_000);
}

/** A job as it is now. */
export function liveOf(job: string): Resource<Live> {
  return view(useResource<Wire>(jobPath(job, "/live")), live);
}

/** What the coordinator's clock shows, in seconds since 1970, by when it last said so; null: it never did. */
export function clockOf(of: Resource<Live>): number | null {
  const data = of.data.peek();
  return data === null ? null : data.at + (clock() - of.came) / 1000;
}

/** Whether a container has a seat and its lease hasn't run out, as far as the coordinator says. */
export function isAlive(of: LiveContainer): boolean {
  return of.gone === null && (of.lease === null || of.lease > 0);
}

const views = new WeakMap<object, unknown>();

/** A resource whose data is made of those of another one, once for each answer. */
function view<A, B>(of: Resource<A>, make: (data: A) => B): Resource<B> {
  let found = views.get(of) as Resource<B> | undefined;
  if (!found) {
    const data: ReadonlySignal<B | null> = computed(() => (of.data.value === null ? null : make(of.data.value)));
    found = Object.create(of, { data: { value: data } }) as Resource<B>;
    views.set(of, found);
  }
  return found;
}

function live(wire: Wire): Live {
  return {
    ...wire,
    lanes: records(wire.lanes),
    containers: records(wire.containers),
    resting: records(wire.resting),
    copies: records(wire.copies),
    stages: records(wire.stages),
    heldUp: records(wire.heldUp),
  };
}

const RESTS = new Set(["stopped", "failed", "drained", "reset"]);

/** Whether a job in this state is one that no coordinator serves, as it doesn't run. */
export function rests(state: string): boolean {
  return RESTS.has(state);
}
