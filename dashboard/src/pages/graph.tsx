// The graph: what does the job do, and where does it queue?

import { Loaded, Panel, Text } from "../parts/basics";
import { Table } from "../parts/table";
import { jobPath, liveOf } from "../data";
import { brief, count, counted, percent, rate, shown } from "../format";
import { useResource } from "../poll";
import { go, link } from "../router";
import type { Graph as Found, LiveLane } from "../types";

const WIDE = 230;
const HIGH = 86;
const APART = 70;

export interface Box {
  stage: string;
  level: number;
  place: number;
}

/** Stages in layers: each stands behind all that it reads from. */
export function layers(stages: string[], edges: { fromStage: string; toStage: string }[]): Box[] {
  const level = new Map<string, number>();
  const of = (stage: string, above: Set<string>): number => {
    const known = level.get(stage);
    if (known !== undefined) return known;
    if (above.has(stage)) return 0;
    const before = edges.filter((each) => each.toStage === stage && each.fromStage !== stage);
    const found = before.length ? 1 + Math.max(...before.map((each) => of(each.fromStage, new Set(above).add(stage)))) : 0;
    level.set(stage, found);
    return found;
  };
  const places = new Map<number, number>();
  return stages.map((stage) => {
    const at = of(stage, new Set());
    const place = places.get(at) ?? 0;
    places.set(at, place + 1);
    return { stage, level: at, place };
  });
}

interface Figures {
  lanes: number;
  lag: number | null;
  rate: number | null;
  busy: number | null;
  failed: number;
}

function figuresOf(lanes: LiveLane[], stage: string): Figures {
  const its = lanes.filter((each) => each.stage === stage);
  const known = (values: (number | null)[]) => values.filter((each): each is number => each !== null);
  const sum = (values: number[]) => (values.length ? values.reduce((one, other) => one + other, 0) : null);
  const busy = known(its.map((each) => each.busy));
  return {
    lanes: its.length,
    lag: sum(known(its.map((each) => (each.lag === null ? null : Number(each.lag))))),
    rate: sum(known(its.map((each) => each.rate))),
    busy: busy.length ? Math.max(...busy) : null,
    failed: its.filter((each) => each.state === "failed").length,
  };
}

/** The stage that the others wait for: busy nearly all the time, with a queue before it. */
function isCause(of: Figures): boolean {
  return (of.busy ?? 0) >= 0.9 && (of.lag ?? 0) > 0;
}

export function Graph({ job }: { job: string }) {
  const found = useResource<Found>(jobPath(job, "/graph"), 30_000);
  const live = liveOf(job);
  return (
    <>
      <h1>Graph</h1>
      <Loaded of={found} unknown="This coordinator doesn't tell the graph. The command line does: anabranch plan JOB.py">
        {(data) => (
          <>
            <Panel title="Stages" note="lag is what waits before a stage">
              <Picture job={job} graph={data} lanes={live.data.value?.lanes ?? []} />
              <StageTable job={job} graph={data} lanes={live.data.value?.lanes ?? []} />
            </Panel>
            <Operators graph={data} />
          </>
        )}
      </Loaded>
    </>
  );
}

function Picture({ job, graph, lanes }: { job: string; graph: Found; lanes: LiveLane[] }) {
  const boxes = layers(graph.stages.map((each) => each.stage), graph.edges);
  if (boxes.length > 200) return <p class="dim">{count(boxes.length)} stages are too many for a picture: see the table.</p>;
  const x = (box: Box) => 10 + box.level * (WIDE + APART);
  const y = (box: Box) => 10 + box.place * (HIGH + 24);
  const wide = Math.max(...boxes.map(x)) + WIDE + 10;
  const high = Math.max(...boxes.map(y)) + HIGH + 10;
  const of = new Map(boxes.map((each) => [each.stage, each]));
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="graph of stages">
      <svg width={wide} height={high} viewBox={`0 0 ${wide} ${high}`} role="img" aria-label={`${boxes.length} stages: ${boxes.map((each) => each.stage).join(", ")}`}>
        {graph.edges.map((each) => {
          const from = of.get(each.fromStage);
          const to = of.get(each.toStage);
          if (!from || !to) return null;
          const middle = (x(from) + WIDE + x(to)) / 2;
          const [y1, y2] = [y(from) + HIGH / 2, y(to) + HIGH / 2];
          return <path key={`${each.fromStage} ${each.toStage} ${each.stream}`} class="edge" d={`M${x(from) + WIDE},${y1} C${middle},${y1} ${middle},${y2} ${x(to) - 6},${y2} m-6,-4 l6,4 l-6,4`} />;
        })}
        {boxes.map((box) => {
          const figures = figuresOf(lanes, box.stage);
          const stage = graph.stages.find((each) => each.stage === box.stage)!;
          const cause = isCause(figures);
          return (
            <g key={box.stage} class={`stage ${cause ? "cause" : ""}`} transform={`translate(${x(box)} ${y(box)})`} onClick={() => go(link(["jobs", job, "lanes"], { stage: box.stage }))}>
              <rect width={WIDE} height={HIGH} rx="6" />
              <text x="10" y="20" class="title">{cut(box.stage, 26)}{cause ? " ◆ the cause" : ""}</text>
              <text x="10" y="38">{counted(stage.tasks, "task")}, {counted(figures.lanes, "lane")}{figures.failed ? `, ✕ ${figures.failed} failed` : ""}</text>
              <text x="10" y="56">lag {brief(figures.lag)} · {rate(figures.rate)}</text>
              <text x="10" y="74">busy {percent(figures.busy)}</text>
            </g>
          );
        })}
      </svg>
    </div>
  );
}

function cut(text: string, most: number): string {
  const visible = shown(text);
  return visible.length > most ? `${visible.slice(0, most - 1)}…` : visible;
}

function StageTable({ job, graph, lanes }: { job: string; graph: Found; lanes: LiveLane[] }) {
  return (
    <Table
      name="stages"
      caption="Stages"
      columns={[
        { id: "stage", title: "stage", cell: (row) => <a href={link(["jobs", job, "lanes"], { stage: row.stage })}><Text of={row.stage} /></a>, by: (row) => row.stage },
        { id: "reads", title: "reads", cell: (row) => <Text of={row.inputs.join(", ")} /> },
        { id: "writes", title: "writes", cell: (row) => <Text of={row.outputs.join(", ")} /> },
        { id: "key", title: "key", cell: (row) => <Text of={row.key.join(", ") || "the message key"} /> },
        { id: "state", title: "state", cell: (row) => (row.stateful ? "yes" : "no") },
        { id: "tasks", title: "tasks", number: true, cell: (row) => count(row.tasks) },
        { id: "lag", title: "lag before it", number: true, cell: (row) => brief(figuresOf(lanes, row.stage).lag) },
        { id: "busy", title: "busy", number: true, cell: (row) => percent(figuresOf(lanes, row.stage).busy) },
      ]}
      rows={graph.stages}
      id={(row) => row.stage}
      empty="It has no stages."
    />
  );
}

function Operators({ graph }: { graph: Found }) {
  const stageOf = new Map(graph.stages.flatMap((each) => each.nodes.map((node) => [node, each.stage] as const)));
  const names = new Map(graph.nodes.map((each) => [each.id, each.name]));
  return (
    <Panel title="Operators">
      <Table
        name="operators"
        caption="Operators"
        prefix="o"
        columns={[
          { id: "name", title: "operator", cell: (row) => <Text of={row.name} />, by: (row) => row.name },
          { id: "kind", title: "kind", cell: (row) => <Text of={row.kind} />, by: (row) => row.kind },
          { id: "stage", title: "stage", cell: (row) => <Text of={stageOf.get(row.id)} />, by: (row) => stageOf.get(row.id) },
          { id: "inputs", title: "inputs", cell: (row) => <Text of={row.inputs.map((each) => names.get(each) ?? String(each)).join(", ")} /> },
          { id: "where", title: "where", cell: (row) => <Text of={row.where} />, by: (row) => row.where },
        ]}
        rows={graph.nodes}
        id={(row) => String(row.id)}
        text={(row) => `${row.name} ${row.kind} ${row.where}`}
        empty="It has none."
      />
    </Panel>
  );
}

