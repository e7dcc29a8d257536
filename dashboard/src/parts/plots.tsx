// Rates and lag through time. The only file that uses uPlot.

import { useEffect, useRef, useState } from "preact/hooks";
import type uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { Empty, Loaded, Panel } from "./basics";
import { jobPath, liveOf } from "../data";
import { brief, moment } from "../format";
import { useResource } from "../poll";
import { route, setQuery } from "../router";
import { colours, zone } from "../session";
import type { History } from "../types";

const SPANS: [string, number][] = [
  ["1 h", 3_600],
  ["6 h", 21_600],
  ["24 h", 86_400],
];

const library = () => import("./uplot");

type Points = [number[], ...(number | null)[][]];

/** Times and values; a gap stays a gap. */
export function points(of: History, series: string[]): Points {
  const lines = series.map((name) => total(Object.values(of.values[name] ?? {})));
  const length = Math.max(0, ...lines.map((each) => each.length));
  const times = Array.from({ length }, (_, at) => of.t0 + at * of.step);
  return [times, ...lines.map((each) => times.map((_, at) => each[at] ?? null))];
}

function total(all: (number | null)[][]): (number | null)[] {
  const length = Math.max(0, ...all.map((each) => each.length));
  return Array.from({ length }, (_, at) => {
    const known = all.map((each) => each[at]).filter((each): each is number => each !== null && each !== undefined);
    return known.length ? known.reduce((sum, each) => sum + each, 0) : null;
  });
}

/** Where the last so many seconds begin: the same moment for ten minutes, so that it is one resource. Never earlier: no
 * more than a day can be asked for. */
export function since(at: number | null, long: number): number {
  return at === null ? 0 : Math.ceil((at - long + 20) / 600) * 600;
}

export function Plots({ job }: { job: string }) {
  const { span = "1 h", plots = "picture" } = route.value.query;
  const long = SPANS.find(([name]) => name === span)?.[1] ?? 3_600;
  const live = liveOf(job);
  const at = live.data.value?.at ?? null;
  const from = since(at, long);
  const found = useResource<History>(jobPath(job, `/history?series=lag,rows,arriving&by=stage&from=${from}`), 10_000, at !== null);
  return (
    <Panel title="The last hours">
      <div class="tools">
        <label>
          span{" "}
          <select value={span} onChange={(event) => setQuery({ span: event.currentTarget.value }, true)}>
            {SPANS.map(([name]) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
        <label>
          show as{" "}
          <select value={plots} onChange={(event) => setQuery({ plots: event.currentTarget.value }, true)}>
            <option value="picture">picture</option>
            <option value="table">table</option>
          </select>
        </label>
      </div>
      <Loaded of={found} after={live} unknown="This coordinator keeps no history of figures; it tells Prometheus at /metrics.">
        {(data) => {
          const of = cut(points(data, ["lag", "rows", "arriving"]), data.at - long);
          if (of[0].length === 0) return <Empty>Nothing was noted yet: figures come every {data.step} seconds.</Empty>;
          if (plots === "table") return <AsTable of={of} />;
          return (
            <>
              <Plot title="lag" names={["lag"]} of={[of[0], of[1]!]} />
              <Plot title="records a second" names={["read", "in"]} of={[of[0], of[2]!, of[3]!]} />
            </>
          );
        }}
      </Loaded>
    </Panel>
  );
}

function drawMarks(of: uPlot, marks: Mark[], colour: string): void {
  const { ctx: context, bbox } = of;
  context.save();
  context.strokeStyle = colour;
  context.fillStyle = colour;
  context.textAlign = "center";
  context.font = `${12 * devicePixelRatio}px system-ui, sans-serif`;
  for (const { at, shape } of marks) {
    const x = of.valToPos(at, "x", true);
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    context.beginPath();
    context.moveTo(x, bbox.top + 14 * devicePixelRatio);
    context.lineTo(x, bbox.top + bbox.height);
    context.stroke();
    context.fillText(shape, x, bbox.top + 11 * devicePixelRatio);
  }
  context.restore();
}

function cut(of: Points, from: number): Points {
  const first = of[0].findIndex((each) => each >= from);
  return first < 0 ? [[], ...of.slice(1).map(() => [])] : (of.map((each) => each.slice(first)) as Points);
}

function AsTable({ of: [times, lag, read, arriving] }: { of: Points }) {
  const last = times.map((_, at) => times.length - 1 - at).slice(0, 500);
  return (
    <div class="scroll bounded" tabIndex={0} role="region" aria-label="figures through time">
      <table>
        <caption class="unseen">Lag and rates through time, the newest first</caption>
        <thead>
          <tr>
            <th scope="col">time</th>
            <th scope="col" class="number">lag</th>
            <th scope="col" class="number">read/s</th>
            <th scope="col" class="number">in/s</th>
          </tr>
        </thead>
        <tbody>
          {last.map((at) => (
            <tr key={times[at]}>
              <td>{moment(times[at]! * 1000)}</td>
              <td class="number">{brief(lag?.[at])}</td>
              <td class="number">{brief(read?.[at])}</td>
              <td class="number">{brief(arriving?.[at])}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

export interface Mark {
  at: number;
  shape: string;
}

interface PlotProps {
  title: string;
  names: string[];
  of: Points;
  /** What happened: a line with a shape above it, at seconds since 1970. */
  marks?: Mark[];
  /** Called with a span that was dragged over, in seconds since 1970. */
  onSpan?: (from: number, to: number) => void;
}

export function Plot({ title, names, of, marks = [], onSpan }: PlotProps) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const now = useRef({ marks, onSpan, of });
  now.current = { marks, onSpan, of };
  const [missing, setMissing] = useState(false);
  useEffect(() => {
    let over = false;
    let end = () => {};
    library().then(
      (loaded) => {
        if (!over && box.current) end = drawn(loaded.default, box.current);
        setMissing(false);
      },
      () => setMissing(true),
    );
    return () => {
      over = true;
      end();
    };
  }, [names.join(), colours.value, zone.value]);
  /** Draw it, and keep its size; gives what removes it. */
  function drawn(library: typeof uPlot, element: HTMLDivElement): () => void {
    const style = getComputedStyle(element);
    const colour = (name: string) => style.getPropertyValue(name).trim();
    const axis = { stroke: colour("--dim"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 } };
    const made = new library(
      {
        width: Math.max(200, element.clientWidth),
        height: 160,
        cursor: { drag: { x: onSpan !== undefined, y: false, setScale: false } },
        hooks: {
          draw: [(made) => drawMarks(made, now.current.marks, colour("--orange"))],
          setSelect: [
            (made) => {
              const { left, width } = made.select;
              if (width < 3) return;
              now.current.onSpan?.(made.posToVal(left, "x"), made.posToVal(left + width, "x"));
              made.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
            },
          ],
        },
        legend: { show: false },
        scales: { x: { time: true }, y: { range: (_, __, most) => [0, Math.max(1, most * 1.1)] } },
        axes: [
          { ...axis, values: (_, splits) => splits.map((each) => moment(each * 1000).slice(11, 16)) },
          { ...axis, size: 56, values: (_, splits) => splits.map((each) => brief(each)) },
        ],
        series: [
          {},
          ...names.map((label, at) => ({ label, stroke: colour(at ? "--orange" : "--accent"), width: 2, spanGaps: false, ...(at && { dash: [6, 4] }) })),
        ],
      },
      now.current.of,
      element,
    );
    plot.current = made;
    const sized = new ResizeObserver(() => made.setSize({ width: Math.max(200, element.clientWidth), height: 160 }));
    sized.observe(element);
    return () => {
      sized.disconnect();
      made.destroy();
      plot.current = null;
    };
  }
  useEffect(() => plot.current?.setData(of), [of, marks.length]);
  const last = of.slice(1).map((each, at) => `${names[at]} ${brief(each.at(-1))}`);
  return (
    <figure>
      <figcaption>
        {title}{" "}
        <span class="dim">
          {names.map((each, at) => (
            <span key={each} class={`line-${at}`}>
              {" "}
              {at ? "┅" : "━"} {each}
            </span>
          ))}
        </span>
      </figcaption>
      {missing && <Empty>The program that draws it couldn't be loaded: load the page again, or show the figures as a table.</Empty>}
      <div ref={box} class="plot" role="img" aria-label={`${title}; the newest: ${last.join(", ")}`} />
    </figure>
  );
}
