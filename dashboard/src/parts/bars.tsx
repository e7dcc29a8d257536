// Bars along an axis of time, in the cells of a table: the axis is in its heading.

import { moment, offsetMinutes } from "../format";
import { link } from "../router";
import type { Change } from "../types";

export interface Mark {
  at: number;
  kind: string;
  summary: string;
  why: string;
}

type Span = [number, number];

const STEPS = [60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200, 86_400, 172_800];
const MOST_TICKS = 5;
const SHAPES: Record<string, string> = { failed: "✕", retried: "✕", fenced: "▲", other: "╵" };

/** Where a moment is, in percent of the axis. */
export function place(at: number, [from, to]: Span): number {
  return Math.max(0, Math.min(100, (100 * (at - from)) / Math.max(1e-9, to - from)));
}

/** Moments of the axis that are round in the zone of the page, few enough to be read. */
export function ticks([from, to]: Span): number[] {
  const step = STEPS.find((each) => (to - from) / each <= MOST_TICKS) ?? Math.ceil((to - from) / MOST_TICKS / 86_400) * 86_400;
  const ahead = (at: number) => 60 * offsetMinutes(at * 1_000);
  const found: number[] = [];
  for (let local = Math.ceil((from + ahead(from)) / step) * step; ; local += step) {
    const at = local - ahead(local - ahead(from)); // clocks may have changed since
    if (at > to) return found;
    if (at >= from) found.push(at);
  }
}

export function Axis({ span, changes, job }: { span: Span; changes: Change[]; job: string }) {
  const long = span[1] - span[0] > 2 * 86_400;
  return (
    <svg class="axis" width="100%" height="30" role="group" aria-label={`from ${moment(span[0] * 1_000)} to ${moment(span[1] * 1_000)}`}>
      {ticks(span).map((at) => (
        <g key={at}>
          <line x1={`${place(at, span)}%`} x2={`${place(at, span)}%`} y1="14" y2="18" />
          <text x={`${place(at, span)}%`} y="11" text-anchor={place(at, span) > 94 ? "end" : place(at, span) < 6 ? "start" : "middle"}>
            {long ? moment(at * 1_000).slice(5, 10) : moment(at * 1_000).slice(11, 16)}
          </text>
        </g>
      ))}
      {changes.map((each) => (
        <a key={each.id} href={link(["jobs", job, "changes", String(each.id)])} aria-label={`${each.kind} at ${moment(each.began * 1_000)}: ${each.why}`}>
          <text class="change" x={`${place(each.began, span)}%`} y="29" text-anchor="middle">
            ▼
          </text>
        </a>
      ))}
    </svg>
  );
}

interface RunsProps {
  span: Span;
  runs: [number, number | null][];
  marks: Mark[];
  state: string;
  changes: Change[];
}

/** What a row shows, in words. */
export function sentence(runs: [number, number | null][], marks: Mark[]): string {
  const ran = runs.map(([from, to]) => `ran from ${moment(from * 1_000)}${to === null ? ", still runs" : ` to ${moment(to * 1_000)}`}`);
  const happened = marks.filter((each) => each.kind in SHAPES).map((each) => `${moment(each.at * 1_000).slice(11)} ${each.summary}${each.why ? `: ${each.why}` : ""}`);
  return [...(ran.length ? ran : ["hasn't run"]), ...happened].join("; ");
}

export function Runs({ span, runs, marks, state, changes }: RunsProps) {
  const said = sentence(runs, marks);
  return (
    <svg class="runs" width="100%" height="22" role="img" aria-label={said}>
      <title>{said}</title>
      {changes.map((each) => (
        <line key={each.id} class="change" x1={`${place(each.began, span)}%`} x2={`${place(each.began, span)}%`} y1="0" y2="22" />
      ))}
      {runs.map(([from, to]) => {
        const left = place(from, span);
        const right = place(to ?? span[1], span);
        if (from >= span[1] || (to !== null && to < span[0])) return null;
        return <rect key={from} class={to === null ? (state === "failed" ? "bad" : "open") : "over"} x={`${left}%`} width={`${Math.max(0.3, right - left)}%`} y="6" height="10" rx="1" />;
      })}
      {marks.map((each) =>
        SHAPES[each.kind] ? (
          <text key={`${each.at} ${each.summary}`} class={each.kind} x={`${place(each.at, span)}%`} y="16" text-anchor="middle">
            {SHAPES[each.kind]}
          </text>
        ) : null,
      )}
    </svg>
  );
}
