// Draws the matrix: only what is in sight, a cell never smaller than a pixel.

import { shown } from "../format";
import type { Placement } from "../pages/placement";

export interface View {
  x: number;
  y: number;
  cell: number;
  /** A column is no narrower than this: with few containers there is room for their names. */
  column: number;
}

export interface Colours {
  line: string;
  text: string;
  cells: string[];
  mark: string;
  back: string;
  leaves: string;
}

export const LEFT = 132;
export const TOP = 44;

export function coloursOf(element: Element): Colours {
  const style = getComputedStyle(element);
  const of = (name: string) => style.getPropertyValue(name).trim();
  return {
    line: of("--line"),
    text: of("--text"),
    cells: ["--scale-1", "--scale-2", "--scale-3", "--scale-4"].map(of),
    mark: of("--accent"),
    back: of("--panel"),
    leaves: of("--orange"),
  };
}

export const MINI = 150;

/** The whole matrix on a small canvas, which is painted once, with a frame around what is in sight. */
export class MiniMap {
  private whole: ImageData | null = null;

  constructor(
    private readonly context: CanvasRenderingContext2D,
    private readonly of: Placement,
    private readonly colours: Colours,
  ) {}

  draw(view: View, wide: number, high: number): void {
    const { context, of } = this;
    if (this.whole === null) {
      context.fillStyle = this.colours.back;
      context.fillRect(0, 0, MINI, MINI);
      context.fillStyle = this.colours.cells[2]!;
      const [across, tall] = [MINI / of.seats.length, MINI / of.partitions.length];
      of.cells.forEach((cells, row) => {
        for (let each = 0; each < cells.length; each += 2) context.fillRect(cells[each]! * across, row * tall, Math.max(1, across), Math.max(1, tall));
      });
      this.whole = context.getImageData(0, 0, MINI, MINI);
    }
    context.putImageData(this.whole, 0, 0);
    const [x, y, right, bottom] = inSight(of, view, wide, high);
    context.strokeStyle = this.colours.mark;
    context.lineWidth = 2;
    context.strokeRect(MINI * x + 1, MINI * y + 1, MINI * (right - x) - 2, Math.max(3, MINI * (bottom - y) - 2));
  }
}

/** What is in sight: left, top, right and bottom, as parts of the whole. */
export function inSight(of: Placement, view: View, wide: number, high: number): [number, number, number, number] {
  const [across, down] = [of.seats.length * width(view), of.partitions.length * view.cell];
  const part = (value: number, whole: number) => Math.min(1, whole > 0 ? value / whole : 1);
  return [part(view.x, across), part(view.y, down), part(view.x + wide - LEFT, across), part(view.y + high - TOP, down)];
}

/** The view in whose middle a point of the small map is. */
export function jumped(of: Placement, view: View, wide: number, high: number, x: number, y: number): View {
  const [across, down] = [of.seats.length * width(view), of.partitions.length * view.cell];
  return clamped(of, { ...view, x: (x / MINI) * across - (wide - LEFT) / 2, y: (y / MINI) * down - (high - TOP) / 2 }, wide, high);
}

/** The cell under a point of the canvas, as row and column; null beside them. */
export function hit(of: Placement, view: View, x: number, y: number): [number, number] | null {
  const column = Math.floor((x - LEFT + view.x) / width(view));
  const row = Math.floor((y - TOP + view.y) / view.cell);
  const inside = x >= LEFT && y >= TOP && row >= 0 && row < of.partitions.length && column >= 0 && column < of.seats.length;
  return inside ? [row, column] : null;
}

export function width(view: View): number {
  return Math.max(6, view.cell, view.column);
}

export function clamped(of: Placement, view: View, wide: number, high: number): View {
  const right = of.seats.length * width(view) - (wide - LEFT);
  const bottom = of.partitions.length * view.cell - (high - TOP);
  return { ...view, x: Math.max(0, Math.min(view.x, right)), y: Math.max(0, Math.min(view.y, bottom)) };
}

/** How full a cell is, as one of four shades; the shade of `heat` where that is given. */
function shade(buckets: number, factor: number, heat: number | null): number {
  const part = heat ?? buckets / factor;
  return Math.max(0, Math.min(3, Math.ceil(part * 4) - 1));
}

export function draw(
  context: CanvasRenderingContext2D,
  of: Placement,
  view: View,
  size: { wide: number; high: number; ratio: number },
  colours: Colours,
  at: [number, number] | null,
  heat: ((seat: number) => number | null) | null,
): void {
  const { wide, high, ratio } = size;
  const across = width(view);
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.fillStyle = colours.back;
  context.fillRect(0, 0, wide, high);
  const first = Math.max(0, Math.floor(view.y / view.cell));
  const last = Math.min(of.partitions.length, Math.ceil((view.y + high - TOP) / view.cell));
  const gap = view.cell > 4 ? 1 : 0;
  const tall = Math.max(1, view.cell - gap);
  const rects: [number, number][][] = [[], [], [], []];
  for (let row = first; row < last; row += 1) {
    const cells = of.cells[row]!;
    for (let each = 0; each < cells.length; each += 2) {
      const x = LEFT + cells[each]! * across - view.x;
      if (x + across < LEFT || x > wide) continue;
      rects[shade(cells[each + 1]!, of.factor, heat ? heat(cells[each]!) : null)]!.push([x, TOP + row * view.cell - view.y]);
    }
  }
  if (of.moves) {
    rects[0] = rects.flat(); // what stays is pale, however much it is
    rects.length = 1;
  }
  rects.forEach((list, level) => {
    context.fillStyle = colours.cells[level]!;
    for (const [x, y] of list) context.fillRect(x, y, across - gap, tall);
  });
  if (of.moves) overlay(context, of, view, { first, last, wide, across: across - gap, tall }, colours);
  labels(context, of, view, { wide, high }, colours, first, last);
  if (at) {
    context.strokeStyle = colours.mark;
    context.lineWidth = 2;
    context.strokeRect(LEFT + at[1] * across - view.x, TOP + at[0] * view.cell - view.y, across, Math.max(3, view.cell));
  }
}

/** What moves: hollow where buckets leave, filled where they arrive; where cells are too small for that, in two colours. */
function overlay(
  context: CanvasRenderingContext2D,
  of: Placement,
  view: View,
  { first, last, wide, across, tall }: { first: number; last: number; wide: number; across: number; tall: number },
  colours: Colours,
): void {
  context.lineWidth = 2;
  for (let row = first; row < last; row += 1) {
    const its = of.moves?.get(row) ?? [];
    const y = TOP + row * view.cell - view.y;
    for (let each = 0; each < its.length; each += 3) {
      for (const [seat, arrives] of [[its[each]!, false], [its[each + 1]!, true]] as const) {
        const x = LEFT + seat * width(view) - view.x;
        if (seat < 0 || x + across < LEFT || x > wide) continue;
        context.fillStyle = context.strokeStyle = arrives ? colours.mark : colours.leaves;
        if (arrives || tall < 5) context.fillRect(x, y, across, tall);
        else context.strokeRect(x + 1, y + 1, across - 2, tall - 2);
      }
    }
  }
}

function labels(
  context: CanvasRenderingContext2D,
  of: Placement,
  view: View,
  size: { wide: number; high: number },
  colours: Colours,
  first: number,
  last: number,
): void {
  const across = width(view);
  context.fillStyle = colours.back;
  context.fillRect(0, 0, size.wide, TOP);
  context.fillRect(0, 0, LEFT, size.high);
  context.fillStyle = colours.text;
  context.strokeStyle = colours.line;
  context.lineWidth = 1;
  context.font = "12px system-ui, sans-serif";
  context.textBaseline = "middle";
  const step = Math.max(1, Math.ceil(16 / view.cell));
  for (let row = Math.ceil(first / step) * step; row < last; row += step) {
    const y = TOP + row * view.cell - view.y + view.cell / 2;
    if (y > TOP + 4) context.fillText(cut(of.partitions[row]!, 18), 4, y, LEFT - 10);
  }
  const every = Math.max(1, Math.ceil(26 / across));
  of.seats.forEach(({ seat, rack }, column) => {
    const x = LEFT + column * across - view.x;
    if (x < LEFT || x > size.wide) return;
    if (column % every === 0) context.fillText(cut(seat, 4), x + 2, TOP - 12, across * every);
    if (column === 0 || of.seats[column - 1]!.rack !== rack) {
      context.fillText(cut(rack ?? "rack ?", 14), x + 2, 12, across * together(of, column) - 4);
      context.beginPath();
      context.moveTo(x - 0.5, 2);
      context.lineTo(x - 0.5, size.high);
      context.stroke();
    }
  });
}

/** How many columns of one rack stand together, from this one on. */
function together(of: Placement, column: number): number {
  let end = column;
  while (end < of.seats.length && of.seats[end]!.rack === of.seats[column]!.rack) end += 1;
  return end - column;
}

/** Text from outside, as it can be seen, and no longer than there is room. */
function cut(text: string, most: number): string {
  const seen = shown(text);
  return seen.length > most ? `${seen.slice(0, most - 1)}…` : seen;
}
