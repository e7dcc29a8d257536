// The matrix: who has what? Partitions by containers, containers by rack.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { ComponentChildren } from "preact";
import { Empty, Facts, Loaded, Panel, Text } from "../parts/basics";
import { clamped, coloursOf, draw, hit, inSight, jumped, LEFT, MINI, MiniMap, TOP, type View, width } from "../parts/canvas";
import { Table } from "../parts/table";
import { jobPath, liveOf } from "../data";
import { count, counted, percent, shown } from "../format";
import { useResource } from "../poll";
import { route, setQuery } from "../router";
import { colours } from "../session";
import type { JobModel, Live, StageMoves } from "../types";
import { MovesTable, sentenceOf, WithMoves } from "./moves";
import { Nowhere } from "./nowhere";
import { type Placement, placement, placementAfter } from "./placement";
import { movingKind } from "./requests";

export function Matrix({ job }: { job: string }) {
  const live = liveOf(job);
  const of = live.data.value;
  // The model is the same for a generation: it's asked for again only when that is another one.
  const model = useResource<JobModel>(jobPath(job, `/model?for=${of ? `${of.deployment}.${of.generation}` : ""}`), 0, of !== null);
  const { by, kind = "" } = route.value.query;
  if (by === "moves" && kind && !movingKind(kind)) return <Nowhere />;
  return (
    <>
      <h1>Matrix</h1>
      <Loaded of={model} after={live}>{(data) => (by === "moves" && of !== null ? <Moving job={job} model={data} live={of} /> : <Stage model={data} live={of} />)}</Loaded>
    </>
  );
}

/** The same picture with what a plan would move, or a change has moved, over it. */
function Moving({ job, model, live }: { job: string; model: JobModel; live: Live }) {
  const { stage = "", view = "picture" } = route.value.query;
  return (
    <WithMoves job={job} live={live}>
      {(stages, sentence) => {
        const of = stages.find((each) => each.stage === stage) ?? stages.find((each) => each.moves.length > 0) ?? stages[0];
        if (!of) return <Empty>It has no stages.</Empty>;
        return (
          <Panel title={`Moves in stage ${shown(of.stage)}`} note={sentenceOf(of)}>
            <Tools stages={stages.map((each) => each.stage)} stage={of.stage} by="moves" view={view} />
            <p>{sentence}</p>
            {view === "table" ? <MovesTable of={of} /> : <MovesPicture of={of} model={model} live={live} />}
          </Panel>
        );
      }}
    </WithMoves>
  );
}

function MovesPicture({ of, model, live }: { of: StageMoves; model: JobModel; live: Live }) {
  const racks = racksOf(live);
  const place = useMemo(() => placementAfter(of, racks), [of, [...racks].join()]);
  return <Picture place={place} sentence={sentenceOf(of)} busy={null} model={model} key={of.stage} />;
}

function Tools({ stages, stage, by, view }: { stages: string[]; stage: string; by: string; view: string }) {
  return (
    <div class="tools">
      <label>
        stage{" "}
        <select value={stage} onChange={(event) => setQuery({ stage: event.currentTarget.value }, true)}>
          {stages.map((each) => (
            <option key={each} value={each}>{shown(each)}</option>
          ))}
        </select>
      </label>
      <label>
        cell{" "}
        <select value={by} onChange={(event) => setQuery({ by: event.currentTarget.value, kind: "", deployment: "", generation: "" }, true)}>
          <option value="buckets">buckets</option>
          <option value="busy">how busy the container's lanes are</option>
          <option value="moves">what a change moves</option>
        </select>
      </label>
      <label>
        show as{" "}
        <select value={view} onChange={(event) => setQuery({ view: event.currentTarget.value }, true)}>
          <option value="picture">picture</option>
          <option value="table">table</option>
        </select>
      </label>
      {by === "moves" ? (
        <span class="legend" aria-hidden="true">
          <i class="scale-1" /> stays <i class="leaves" /> leaves <i class="arrives" /> arrives
        </span>
      ) : (
        <span class="legend" aria-hidden="true">
          <i class="scale-1" /> a quarter <i class="scale-2" /> half <i class="scale-3" /> three quarters <i class="scale-4" /> all
        </span>
      )}
    </div>
  );
}

function Stage({ model, live }: { model: JobModel; live: Live | null }) {
  const { stage = model.stages[0]?.stage ?? "", by = "buckets", view = "picture" } = route.value.query;
  const racks = racksOf(live);
  const place = useMemo(() => placement(model, stage, racks), [model, stage, [...racks].join()]);
  const spread = place.cells.reduce((sum, row) => sum + row.length / 2, 0) / Math.max(1, place.partitions.length);
  const sentence = `${counted(place.seats.length, "container")} · ${counted(place.tasks, "task")} · ${counted(place.partitions.length, "partition")}, each in ${spread === 1 ? "one" : `${spread.toFixed(2)} on average`}`;
  return (
    <Panel title={`Stage ${shown(place.stage)}`} note={sentence}>
      <Tools stages={model.stages.map((each) => each.stage)} stage={place.stage} by={by} view={view} />
      {view === "table" ? (
        <AsTable place={place} />
      ) : (
        <Picture place={place} sentence={sentence} busy={by === "busy" ? busiest(place, live) : null} model={model} />
      )}
    </Panel>
  );
}

/** The racks of the containers that have seats now. */
function racksOf(live: Live | null): Map<string, string | null> {
  return new Map((live?.containers ?? []).filter((each) => each.gone === null).map((each) => [each.seat, each.rack]));
}

function busiest(place: Placement, live: Live | null): (number | null)[] {
  return place.seats.map(({ seat }) => {
    const known = (live?.lanes ?? []).filter((each) => each.seat === seat && each.stage === place.stage && each.busy !== null);
    return known.length ? Math.max(...known.map((each) => each.busy!)) : null;
  });
}

function AsTable({ place }: { place: Placement }) {
  const rows = useMemo(
    () =>
      place.partitions.flatMap((partition, row) =>
        Array.from({ length: place.cells[row]!.length / 2 }, (_, at) => ({
          partition,
          ...place.seats[place.cells[row]![2 * at]!]!,
          buckets: place.cells[row]![2 * at + 1]!,
        })),
      ),
    [place],
  );
  return (
    <Table
      name="cells"
      caption="Which container has which partition"
      columns={[
        { id: "partition", title: "partition", cell: (row) => <Text of={row.partition} />, by: (row) => row.partition },
        { id: "seat", title: "container's seat", cell: (row) => <Text of={row.seat} />, by: (row) => row.seat },
        { id: "rack", title: "rack", cell: (row) => <Text of={row.rack} />, by: (row) => row.rack },
        { id: "buckets", title: `buckets of ${place.factor}`, number: true, cell: (row) => count(row.buckets), by: (row) => row.buckets },
      ]}
      rows={rows}
      id={(row) => `${row.partition} ${row.seat}`}
      text={(row) => `${row.partition} ${row.seat} ${row.rack ?? ""}`}
      empty="The stage has no tasks."
      csv={`stage-${place.stage}`}
    />
  );
}

const SMALLEST = 0.05;
const LARGEST = 40;

function Picture({ place, sentence, busy, model }: { place: Placement; sentence: string; busy: (number | null)[] | null; model: JobModel }) {
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const view = useRef<View>({ x: 0, y: 0, column: Math.min(72, 640 / Math.max(1, place.seats.length)), cell: Math.max(4, Math.min(22, 520 / Math.max(1, place.partitions.length))) });
  const [at, setAt] = useState<[number, number] | null>(null);
  const marked = useRef(at);
  marked.current = at;
  const plan = useRef<() => void>(() => {});
  const map = useRef<HTMLCanvasElement>(null);
  const [partly, setPartly] = useState(false);

  useEffect(() => {
    const element = canvas.current!;
    const context = element.getContext("2d")!;
    const mini = new MiniMap(map.current!.getContext("2d", { willReadFrequently: true })!, place, coloursOf(element));
    let planned = 0;
    const paint = () => {
      planned = 0;
      if (!box.current) return; // the page was left before the frame came
      const { clientWidth: wide, clientHeight: high } = box.current;
      const ratio = devicePixelRatio || 1;
      if (element.width !== Math.round(wide * ratio) || element.height !== Math.round(high * ratio)) {
        element.width = Math.round(wide * ratio);
        element.height = Math.round(high * ratio);
      }
      view.current = clamped(place, view.current, wide, high);
      draw(context, place, view.current, { wide, high, ratio }, coloursOf(element), marked.current, busy ? (seat) => busy[seat] ?? 0 : null);
      const seen = inSight(place, view.current, wide, high);
      const some = seen[0] > 0 || seen[1] > 0 || seen[2] < 1 || seen[3] < 1;
      setPartly(some);
      if (some) mini.draw(view.current, wide, high);
    };
    plan.current = () => {
      if (!planned) planned = requestAnimationFrame(paint);
    };
    const sized = new ResizeObserver(() => plan.current());
    sized.observe(box.current!);
    plan.current();
    return () => {
      cancelAnimationFrame(planned);
      sized.disconnect();
    };
  }, [place, busy?.join(), colours.value]);

  useEffect(() => plan.current(), [at]);

  useEffect(() => {
    const element = box.current!;
    const wheel = (event: WheelEvent) => {
      event.preventDefault();
      const { x, y, cell } = view.current;
      if (event.ctrlKey) {
        const next = Math.max(SMALLEST, Math.min(LARGEST, cell * (event.deltaY < 0 ? 1.25 : 0.8)));
        const inside = event.offsetY - TOP;
        view.current = { ...view.current, cell: next, y: ((y + inside) / cell) * next - inside };
      } else {
        view.current = { ...view.current, x: x + event.deltaX, y: y + event.deltaY };
      }
      plan.current();
    };
    element.addEventListener("wheel", wheel, { passive: false });
    return () => element.removeEventListener("wheel", wheel);
  }, []);

  const moved = (event: PointerEvent) => {
    if (event.buttons === 1) {
      view.current = { ...view.current, x: view.current.x - event.movementX, y: view.current.y - event.movementY };
      plan.current();
    }
    const under = hit(place, view.current, event.offsetX, event.offsetY);
    if (under?.join() !== marked.current?.join() && under) setAt(under);
  };

  const jump = (event: PointerEvent) => {
    if (event.buttons !== 1) return;
    const { clientWidth: wide, clientHeight: high } = box.current!;
    view.current = jumped(place, view.current, wide, high, event.offsetX, event.offsetY);
    plan.current();
  };

  const keys = (event: KeyboardEvent) => {
    const step: Record<string, [number, number]> = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], PageDown: [20, 0], PageUp: [-20, 0] };
    const by = step[event.key];
    if (!by) return;
    event.preventDefault();
    const [row, column] = marked.current ?? [0, 0];
    const next: [number, number] = [
      Math.max(0, Math.min(place.partitions.length - 1, row + by[0])),
      Math.max(0, Math.min(place.seats.length - 1, column + by[1])),
    ];
    setAt(next);
    const { clientHeight: high, clientWidth: wide } = box.current!;
    const y = next[0] * view.current.cell;
    const x = next[1] * width(view.current);
    if (y < view.current.y) view.current = { ...view.current, y };
    if (y + view.current.cell > view.current.y + high - TOP) view.current = { ...view.current, y: y + view.current.cell - (high - TOP) };
    if (x < view.current.x) view.current = { ...view.current, x };
    if (x + width(view.current) > view.current.x + wide - LEFT) view.current = { ...view.current, x: x + width(view.current) - (wide - LEFT) };
  };

  return (
    <div class="matrix">
      <div
        ref={box}
        class="canvas"
        tabIndex={0}
        role="application"
        aria-label={`Matrix: ${sentence}. Arrow keys move; Ctrl and the wheel zoom.`}
        onKeyDown={keys}
        onPointerMove={moved}
      >
        <canvas ref={canvas} role="img" aria-label={sentence} />
      </div>
      <div class="beside">
        <canvas ref={map} class={partly ? "map" : "map hidden"} width={MINI} height={MINI} aria-hidden="true" onPointerDown={jump} onPointerMove={jump} />
        <aside aria-live="polite">{at && at[0] < place.partitions.length ? <Cell place={place} at={at} model={model} busy={busy} /> : <p class="dim">Point at a cell, or use the arrow keys.</p>}</aside>
      </div>
    </div>
  );
}

function Cell({ place, at: [row, column], model, busy }: { place: Placement; at: [number, number]; model: JobModel; busy: (number | null)[] | null }) {
  const partition = place.partitions[row]!;
  const seat = place.seats[column]!;
  const cells = place.cells[row]!;
  const all = Array.from({ length: cells.length / 2 }, (_, each) => [place.seats[cells[2 * each]!]!.seat, cells[2 * each + 1]!] as const);
  const here = all.find(([each]) => each === seat.seat)?.[1] ?? 0;
  const tasks = (model.containers.find((each) => each.seat === seat.seat)?.tasks[place.stage] ?? []).filter((each) => each === partition || each.startsWith(`${partition}-`));
  return (
    <Facts
      of={[
        ["partition", <Text of={partition} />],
        ["seat", <Text of={seat.seat} />],
        ["rack", seat.rack === null ? "not known" : <Text of={seat.rack} />],
        [place.moves ? "buckets here afterwards" : "buckets here", `${here} of ${place.factor}`],
        ...(place.moves ? ([["what moves here", whatMoves(place, row, column)]] as [string, string][]) : []),
        ["all of it", all.map(([each, buckets]) => `seat ${each}: ${buckets}`).join(", ")],
        ...(place.moves ? [] : ([["tasks here", <Text of={tasks.slice(0, 32).join(", ") + (tasks.length > 32 ? ` and ${tasks.length - 32} more` : "")} />]] as [string, ComponentChildren][])),
        ...(busy ? ([["busiest lane of the seat", percent(busy[column] ?? null)]] as [string, string][]) : []),
      ]}
    />
  );
}

/** What leaves and what arrives in a cell, in words. */
function whatMoves(place: Placement, row: number, column: number): string {
  const its = place.moves?.get(row) ?? [];
  const name = (at: number) => (at < 0 ? "nowhere" : `seat ${place.seats[at]!.seat}`);
  const said: string[] = [];
  for (let each = 0; each < its.length; each += 3) {
    const [from, to, buckets] = [its[each]!, its[each + 1]!, its[each + 2]!];
    if (from === column) said.push(`${counted(buckets, "bucket")} to ${name(to)}`);
    if (to === column) said.push(`${counted(buckets, "bucket")} from ${name(from)}`);
  }
  return said.join(", ") || "nothing";
}
