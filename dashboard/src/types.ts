// What the coordinator answers, as far as the page uses it. Times are seconds since 1970 by the coordinator's clock,
// watermarks are event time in Unix ms. A number beyond 2^53 arrives as a string (see api.ts).

export type Num = number | string;

export interface Columns {
  columns: string[];
  rows: unknown[][];
}

export interface Finding {
  severity: string;
  rule: string;
  subject: Record<string, string>;
  what: string;
  why: string;
  figures: Record<string, Num>;
  cure: string;
  since: number | null;
}

export interface JobOverview {
  job: string;
  state: string;
  served: boolean;
  deployment: number;
  generation: number;
  factor: number;
  seats: number;
  containers: number | null;
  lag: Num | null;
  lagTrend: number | null;
  rows: number | null;
  arriving: number | null;
  lanes: number;
  failedLanes: number;
  worst: Finding | null;
  changedAt: number | null;
}

export interface Overview {
  at: number;
  leads: boolean;
  leader: string | null;
  jobs: JobOverview[];
}

export interface LiveLane {
  id: string;
  stage: string;
  group: string;
  seat: string;
  state: string;
  phase: string | null;
  epoch: number;
  batch: Num | null;
  rate: number | null;
  arriving: number | null;
  lag: Num | null;
  busy: number | null;
  working: number | null;
  watermark: Num | null;
  heldBy: string | null;
  newest: Num | null;
  attempt: number | null;
  stalls: number | null;
  seconds: number | null;
  usual: number | null;
  skew: number | null;
  slowest: string | null;
  deadLetters: Num | null;
  late: Num | null;
  error: string | null;
  trouble: string | null;
  /** What it waits for; empty: nothing. */
  awaits?: string | null;
  progress: number | null;
}

export interface LiveContainer {
  id: string;
  seat: string;
  epoch: number;
  host: string;
  pid: number;
  rack: string | null;
  lease: number | null;
  heard: number | null;
  registered: number | null;
  deployment: number;
  lanes: number;
  gone: string | null;
}

export interface Resting {
  execution: string;
  host: string;
  pid: number;
  rack: string | null;
  deployment: number;
  asked: number | null;
  copies: number;
}

export interface LiveCopy {
  lane: string;
  number: number;
  container: string;
  rack: string | null;
  batch: Num;
  behind: number | null;
  error: string;
}

export interface DrainProgress {
  notification: { uuid: string; runId: number; mode: string };
  ends: Record<string, Num>;
  until: Record<string, Num> | null;
  last: boolean;
}

export interface Launching {
  wanted: number;
  running: number;
  failures: number;
  reason: string;
  gaveUp: boolean;
  logs: string;
}

export interface Change {
  id: number;
  deployment: number;
  generation: number;
  kind: string;
  who: string;
  why: string;
  began: number;
  ended: number | null;
  seconds: number | null;
  outcome: string;
  closing: number | null;
  starting: number | null;
  predictedPause: number | null;
  measuredPause: number | null;
  pausedLane: string | null;
  reason: string;
}

export interface UnderWay {
  generation: number;
  began: number;
  predicted: number | null;
  closing: string[];
  starting: string[];
  closed: number;
  running: number;
}

export interface Live {
  at: number;
  rev: string;
  job: string;
  served: boolean;
  state: string;
  error: string | null;
  deployment: number;
  generation: number;
  factor: number;
  seats: number;
  since: number | null;
  lanes: LiveLane[];
  containers: LiveContainer[];
  resting: Resting[];
  copies: LiveCopy[];
  windows: Num | null;
  drain: DrainProgress | null;
  stages: { stage: string; lanes: number; halted: number; drained: number; records: Num; windows: Num }[];
  heldUp: { lane: string; stuck: string; overdue: boolean; waits: string }[];
  change: UnderWay | null;
  launching: Launching | null;
  warnings: string[];
}

export interface Ssp {
  system: string;
  stream: string;
  partition: number;
  keyBucket: number;
}

export interface Lane {
  id: string;
  deployment: number;
  stage: string;
  group: string;
  seat: string;
  tasks: string[];
  ssps: Ssp[];
  predecessors: string[];
  upstream: string[];
  outputs: Record<string, number>;
  deadLetters: Record<string, string>;
  stateful: boolean;
  factor: number;
  state: string;
  epoch: number;
  error: string | null;
  starting: { ssp: Ssp; offset: Num }[];
  final: { ssp: Ssp; offset: Num }[];
}

export interface JobModel {
  job: string;
  runId: number;
  generation: number;
  factor: number;
  stages: {
    stage: string;
    key: string[];
    stateful: boolean;
    grouper: string;
    inputs: string[];
    tasks: { name: string; ssps: Ssp[] }[];
  }[];
  containers: { seat: string; tasks: Record<string, string[]>; rack: string | null }[];
}

export interface JobEvent {
  id?: number;
  at: number;
  who: string;
  what: string;
  why: string;
  kind?: string;
  deployment?: number;
  generation?: number;
  lane?: string;
  container?: string;
}

export interface LaneSizing {
  lane: string;
  stage: string;
  seat: string;
  tasks: string[];
  lag: Num;
  arriving: number;
  rowsPerSecond: number;
  busy: number;
  working: number;
  batchSeconds: number;
  slowest: string;
  slowestSeconds: number;
  skew: number;
  trueRate: number;
  neededRate: number;
  catchUp: number | null;
  then: number | null;
}

export interface Sizing {
  state: string;
  generation: number;
  factor: number;
  containers: number;
  allowed: number[];
  lanes: LaneSizing[];
  autoscale: string;
  limits: { min: number; max: number; targetBusy: number; targetLagSeconds: number; cooldownSeconds: number } | null;
  verdict: { factor: number | null; why: string; lane: string; load: number } | null;
  proposed: number;
  targetLagSeconds: number;
  forecasts: FactorForecast[];
  advice: string[];
}

export interface FactorForecast {
  factor: number;
  lane: string;
  utilisation: number;
  catchUp: number | null;
}

export interface Traffic {
  read: Record<string, Record<string, number>>;
}

export interface TaskAssignment {
  seat: string;
  should: string;
  why: string;
}

export interface Assignment {
  strategy: string;
  racks: Record<string, string | null>;
  tasks: Record<string, Record<string, TaskAssignment>>;
  cost: number;
  lowerBound: number;
  before: Traffic | null;
  after: Traffic | null;
  whyNot: string;
}

export interface CoordinatorInfo {
  at: number;
  program: string;
  leads: boolean;
  leader: string | null;
  lease: number;
  grace: number | null;
  invalidHeartbeats: number;
  store: string;
  /** By name, addresses with {host}, {pid} and the like in them. */
  links?: Record<string, string>;
}

export interface Graph {
  job: string;
  deployment: number;
  nodes: { id: number; kind: string; name: string; inputs: number[]; where: string }[];
  stages: {
    stage: string;
    nodes: number[];
    key: string[];
    stateful: boolean;
    inputs: string[];
    outputs: string[];
    tasks: number;
  }[];
  edges: { fromStage: string; toStage: string; stream: string }[];
  promises: Record<string, string>;
}

/** A partition that a lane reads. time: its own time in Unix ms, which holds windows open. */
export interface PartitionRow {
  ssp: string;
  lane: string;
  position: Num | null;
  end: Num | null;
  lag: Num | null;
  held: boolean | null;
  idle: boolean | null;
  time: number | null;
}

export interface Partitions {
  at: number;
  served: boolean;
  start: number;
  total: number;
  table: Columns;
  totals: Record<string, Num>;
  quantiles: Record<string, Num>;
}

export interface History {
  at: number;
  t0: number;
  step: number;
  by: string;
  since: number | null;
  values: Record<string, Record<string, (number | null)[]>>;
}

export interface StageMoves {
  stage: string;
  buckets: number;
  seats: string[];
  racks: (string | null)[];
  partitions: string[];
  /** Partition, seat, buckets there afterwards. */
  cells: [number, number, number][];
  /** Partition, seat before, seat after (-1: none), buckets. */
  moves: [number, number, number, number][];
}

export interface Moves {
  at: number;
  deployment: number;
  generation: number;
  former: [number, number];
  stages: StageMoves[];
}

export interface LaneTimes {
  at: number;
  since: number;
  until: number;
  knownSince: number | null;
  lanes: Columns;
  marks: Columns;
  omitted: number;
}

export interface EarlyOutput {
  at: number;
  streams: string[];
  stream: string;
  rows: { partition: number; offset: Num; at: number; key: Content | null; value: Content | null }[];
  total: number;
  lookedAt: number;
  partly: boolean;
}

export interface DeadLetters {
  at: number;
  streams: string[];
  stream: string;
  letters: Letter[];
  before: Record<string, Num>;
  partly: boolean;
}

export interface Content {
  text?: string | null;
  base64?: string | null;
  bytes: number;
  cut: boolean;
}

export interface Letter {
  partition: number;
  offset: Num;
  at: number;
  error: string;
  operator: string;
  origin: { stream: string; partition: number; offset: Num } | null;
  key: Content | null;
  value: Content | null;
  headers: Record<string, string>;
}

/** Rows of a table that names its columns once, as objects. */
export function records<T>(table: Columns): T[] {
  return table.rows.map((row) => Object.fromEntries(table.columns.map((name, at) => [name, row[at]])) as T);
}
