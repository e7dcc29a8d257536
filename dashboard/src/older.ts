// A coordinator without /overview and /jobs/J/live: the same, out of what it has.

import type { JobOverview, JobStatus, Live, Num, Overview } from "./types";

interface Report {
  phase: string;
  batch: number;
  positions: Record<string, Num>;
  ends: Record<string, Num>;
  rowsPerSecond: number;
  arriving: number;
  busy: number;
  working: number;
  watermark: number | null;
  heldBy: string | null;
  attempt: number;
  stalls: number;
  seconds: number;
  usualSeconds: number;
  skew: number;
  slowest: string;
  deadLetters: number;
  late: Record<string, number>;
  error: string | null;
  trouble: string;
  batchProgress: { planned: number; done: number } | null;
}

interface Container {
  container: string;
  seat: string;
  epoch: number;
  host: string;
  pid: number;
  rack: string | null;
  alive: boolean;
  lease: number | null;
  gone: string | null;
  deployment: number;
}

interface Status extends Omit<JobStatus, "lanes"> {
  deployment: number;
  generation: number;
  factor: number;
  seats: number;
  error: string | null;
  lanes: { lane: JobStatus["lanes"][0]["lane"]; report: Report | null }[];
  containers: Container[];
  copies: Live["copies"];
  launching: Live["launching"];
  warnings: string[];
}

function lagOf(report: Report | null): number | null {
  if (report === null) return null;
  return Object.entries(report.ends).reduce(
    (sum, [ssp, end]) => sum + Math.max(0, Number(end) - Number(report.positions[ssp] ?? 0)),
    0,
  );
}

function sum(values: (number | null)[]): number | null {
  const known = values.filter((each): each is number => each !== null);
  return known.length ? known.reduce((one, other) => one + other, 0) : null;
}

export function overviewOf({ jobs }: { jobs: Status[] }): Overview {
  return { at: Date.now() / 1000, leads: true, leader: null, jobs: jobs.map(job) };
}

function job(status: Status): JobOverview {
  const reports = status.lanes.map((each) => each.report);
  return {
    job: status.job,
    state: status.state,
    served: status.served,
    deployment: status.deployment,
    generation: status.generation,
    factor: status.factor,
    seats: status.seats,
    containers: status.served ? status.containers.filter((each) => each.alive && each.gone === null).length : null,
    lag: sum(reports.map(lagOf)),
    lagTrend: null,
    rows: sum(reports.map((each) => each?.rowsPerSecond ?? null)),
    arriving: sum(reports.map((each) => each?.arriving ?? null)),
    lanes: status.lanes.length,
    failedLanes: status.lanes.filter((each) => each.lane.state === "failed").length,
    worst: null,
    changedAt: null,
  };
}

export function liveOf(status: Status): Live {
  return {
    at: Date.now() / 1000,
    rev: "",
    job: status.job,
    served: status.served,
    state: status.state,
    error: status.error,
    deployment: status.deployment,
    generation: status.generation,
    factor: status.factor,
    seats: status.seats,
    since: null,
    lanes: status.lanes.map(({ lane, report }) => ({
      id: lane.id,
      stage: lane.stage,
      group: lane.group,
      seat: lane.seat,
      state: lane.state,
      phase: report?.phase ?? null,
      epoch: lane.epoch,
      batch: report?.batch ?? null,
      rate: report?.rowsPerSecond ?? null,
      arriving: report?.arriving ?? null,
      lag: lagOf(report),
      busy: report?.busy ?? null,
      working: report?.working ?? null,
      watermark: report?.watermark ?? null,
      heldBy: report?.heldBy ?? null,
      attempt: report?.attempt ?? null,
      stalls: report?.stalls ?? null,
      seconds: report?.seconds ?? null,
      usual: report?.usualSeconds ?? null,
      skew: report?.skew ?? null,
      slowest: report?.slowest || null,
      deadLetters: report?.deadLetters ?? null,
      late: report ? sum(Object.values(report.late)) ?? 0 : null,
      error: lane.error ?? report?.error ?? null,
      trouble: report?.trouble ?? null,
      progress: report?.batchProgress?.planned ? report.batchProgress.done / report.batchProgress.planned : null,
    })),
    containers: status.containers.map((each) => ({
      id: each.container,
      seat: each.seat,
      epoch: each.epoch,
      host: each.host,
      pid: each.pid,
      rack: each.rack,
      lease: status.served && each.alive ? each.lease : null,
      heard: null,
      registered: null,
      deployment: each.deployment,
      lanes: status.lanes.filter(({ lane }) => lane.seat === each.seat).length,
      gone: each.gone,
    })),
    resting: [],
    copies: status.copies,
    drain: status.drain,
    change: null,
    lastChange: null,
    launching: status.launching,
    warnings: status.warnings,
  };
}
