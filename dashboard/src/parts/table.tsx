// Tables: sorted and filtered by what is in the URL, keyed by identity, with only the rows in sight in the page.

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { count, counted, inOrder } from "../format";
import { route, setQuery } from "../router";
import { Empty } from "./basics";

export interface Column<R> {
  id: string;
  title: string;
  /** Stands in the heading in place of the title. */
  head?: ComponentChildren;
  cell: (row: R) => ComponentChildren;
  /** What it is sorted by; none: it can't be. */
  by?: (row: R) => number | string | null | undefined;
  number?: boolean;
  wide?: boolean;
}

interface Props<R> {
  name: string;
  caption: string;
  columns: Column<R>[];
  rows: R[];
  id: (row: R) => string;
  /** The column it is sorted by at first, with "-" before it for the largest first; none: as the rows come. */
  sort?: string;
  /** What of a row the filter looks at. */
  text?: (row: R) => string;
  selected?: string | undefined;
  empty: ComponentChildren;
  /** The name of the file that the rows can be saved in; none: they can't. */
  csv?: string;
  /** Names of the query's parts, where a page has several tables. */
  prefix?: string;
}

const ROW = 32;
const MOST_WHOLE = 60;
const OVER = 8;

export function Table<R>(props: Props<R>) {
  const { columns, rows, id, text, prefix = "" } = props;
  const query = route.value.query;
  const find = query[`${prefix}find`] ?? "";
  const sort = query[`${prefix}sort`] ?? props.sort ?? "";
  const seen = sorted(filtered(rows, find, text), columns, sort);
  const window_ = useWindow(seen.length);
  const shown = seen.slice(window_.from, window_.to);
  return (
    <div class="table">
      {text && (
        <div class="tools">
          <input
            type="search"
            class="find"
            placeholder="find"
            aria-label={`find in: ${props.caption}`}
            value={find}
            onInput={(event) => setQuery({ [`${prefix}find`]: event.currentTarget.value })}
          />
          <span class="dim">
            {find && `${count(seen.length)} of `}
            {counted(rows.length, props.name.replace(/s$/, ""), props.name)}
          </span>
          {props.csv && (
            <button type="button" onClick={() => save(`${props.csv}.csv`, asCsv(seen, columns))}>
              save as CSV
            </button>
          )}
        </div>
      )}
      {seen.length === 0 ? (
        <Empty>{rows.length === 0 ? props.empty : `none of ${count(rows.length)} has “${find}” in it`}</Empty>
      ) : (
        <div class={`scroll ${window_.partly ? "bounded" : ""}`} ref={window_.ref} tabIndex={0} role="region" aria-label={props.caption}>
          <table aria-rowcount={seen.length + 1}>
            <caption class="unseen">{props.caption}</caption>
            <thead>
              <tr aria-rowindex={1}>
                {columns.map((each) => (
                  <Heading key={each.id} column={each} sort={sort} prefix={prefix} first={props.sort ?? ""} />
                ))}
              </tr>
            </thead>
            <tbody>
              {window_.from > 0 && (
                <tr key="before" aria-hidden="true" style={{ height: `${window_.from * ROW}px` }}>
                  <td colSpan={columns.length} />
                </tr>
              )}
              {shown.map((row, at) => (
                <tr
                  key={id(row)}
                  data-row={id(row)}
                  aria-rowindex={window_.from + at + 2}
                  class={id(row) === props.selected ? "selected" : ""}
                >
                  {columns.map((each) => (
                    <td key={each.id} class={`${each.number ? "number" : ""} ${each.wide ? "wide" : ""}`}>
                      {each.cell(row)}
                    </td>
                  ))}
                </tr>
              ))}
              {window_.to < seen.length && (
                <tr key="after" aria-hidden="true" style={{ height: `${(seen.length - window_.to) * ROW}px` }}>
                  <td colSpan={columns.length} />
                </tr>
              )}
            </tbody>
          </table>
        </div>
      )}
    </div>
  );
}

/** What rows have in the columns that can be sorted by, exactly, with a line of headings. */
function asCsv<R>(rows: R[], columns: Column<R>[]): string {
  const known = columns.filter((each) => each.by);
  const lines = [known.map((each) => each.title), ...rows.map((row) => known.map((each) => each.by!(row)))];
  return lines.map((line) => `${line.map(field).join(",")}\r\n`).join("");
}

/** Texts that a spreadsheet would take for a formula get an apostrophe: they come from outside. */
function field(value: Value): string {
  if (typeof value === "number") return String(value);
  const text = (value ?? "").replace(/^[=+\-@\t\r]/, "'$&");
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function save(name: string, content: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], { type: "text/csv" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

function Heading<R>({ column, sort, prefix, first }: { column: Column<R>; sort: string; prefix: string; first: string }) {
  const down = sort === `-${column.id}`;
  const up = sort === column.id;
  const order = up ? "ascending" : down ? "descending" : undefined;
  if (!column.by) {
    return (
      <th scope="col" class={column.number ? "number" : ""}>
        {column.head ? <><span class="unseen">{column.title}</span>{column.head}</> : column.title}
      </th>
    );
  }
  const next = up || (!down && column.number) ? `-${column.id}` : column.id;
  return (
    <th scope="col" aria-sort={order} class={column.number ? "number" : ""}>
      <button type="button" class="sort" onClick={() => setQuery({ [`${prefix}sort`]: next === first ? "" : next }, true)}>
        {column.title}
        <span aria-hidden="true">{up ? " ▴" : down ? " ▾" : ""}</span>
      </button>
    </th>
  );
}

export function filtered<R>(rows: R[], find: string, text?: (row: R) => string): R[] {
  const wanted = find.trim().toLowerCase();
  return wanted && text ? rows.filter((row) => text(row).toLowerCase().includes(wanted)) : rows;
}

export function sorted<R>(rows: R[], columns: Column<R>[], sort: string): R[] {
  const down = sort.startsWith("-");
  const by = columns.find((each) => each.id === sort.replace(/^-/, ""))?.by;
  if (!by) return rows;
  return [...rows].sort((one, other) => compare(by(one), by(other), down));
}

type Value = number | string | null | undefined;

/** What isn't known comes last, whatever the order. Texts that are numbers are compared as such. */
function compare(one: Value, other: Value, down: boolean): number {
  if (one === null || one === undefined) return other === null || other === undefined ? 0 : 1;
  if (other === null || other === undefined) return -1;
  const order =
    typeof one === "number" && typeof other === "number"
      ? one - other
      : inOrder(String(one), String(other));
  return down ? -order : order;
}

/** Which rows are in the page: all of a short table, of a long one those in sight. */
function useWindow(total: number) {
  const ref = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const partly = total > MOST_WHOLE;
  useEffect(() => {
    const box = ref.current;
    if (!box || !partly) return undefined;
    let planned = 0;
    const moved = () => {
      cancelAnimationFrame(planned);
      planned = requestAnimationFrame(() => setTop(box.scrollTop));
    };
    box.addEventListener("scroll", moved, { passive: true });
    return () => {
      cancelAnimationFrame(planned);
      box.removeEventListener("scroll", moved);
    };
  }, [partly]);
  if (!partly) return { ref, from: 0, to: total, partly };
  const height = ref.current?.clientHeight ?? 600;
  const from = Math.max(0, Math.min(total - 1, Math.floor(top / ROW)) - OVER);
  return { ref, from, to: Math.min(total, from + Math.ceil(height / ROW) + 2 * OVER), partly };
}
