// Assignment: which rack reads from which, what that costs, and whether it could cost less.

import { Command, Empty, Facts, Loaded, Panel, Text } from "../parts/basics";
import { Table } from "../parts/table";
import { jobPath } from "../data";
import { count, counted } from "../format";
import { useResource } from "../poll";
import { link, route, setQuery } from "../router";
import type { Assignment as Found, TaskAssignment, Traffic } from "../types";
import { mayChange } from "../session";

interface Row extends TaskAssignment {
  stage: string;
  task: string;
}

export function Assignment({ job }: { job: string }) {
  // It asks the systems which racks hold what, so it is asked for once, and again by hand.
  const found = useResource<Found>(jobPath(job, "/assignment"), 0);
  return (
    <>
      <h1>Assignment and racks</h1>
      <p class="tools">
        <button type="button" onClick={() => void found.ask()}>
          look again
        </button>
        <span class="dim">The coordinator asks the systems for their racks each time.</span>
      </p>
      <Loaded of={found}>{(data) => <Explained job={job} of={data} />}</Loaded>
    </>
  );
}

/** What is known of the cost: that none is lower, or how much lower one could be at most. */
export function proof(of: Found): string {
  return of.cost === of.lowerBound ? `${of.cost}; no assignment costs less` : `${of.cost}; none costs less than ${of.lowerBound}`;
}

function Explained({ job, of }: { job: string; of: Found }) {
  const rows: Row[] = Object.entries(of.tasks).flatMap(([stage, tasks]) => Object.entries(tasks).map(([task, each]) => ({ stage, task, ...each })));
  const elsewhere = rows.filter((each) => each.seat !== each.should);
  const racked = of.strategy !== "none" && !of.whyNot;
  const known = Object.values(of.racks).filter((each) => each !== null);
  return (
    <>
      <Panel title="What is, and what should be">
        <Facts
          of={[
            ["strategy", <Text of={of.strategy} />],
            ["racks", known.length ? <Text of={[...new Set(known)].sort().join(", ")} /> : "no container has one: set [assignment] rack, or start containers with a rack"],
            ...(of.whyNot ? ([["why racks don't count", <Text of={of.whyNot} />]] as [string, preact.ComponentChildren][]) : []),
            ...(racked ? ([["cost as it should be", proof(of)]] as [string, string][]) : []),
            ["tasks elsewhere than they should be", `${count(elsewhere.length)} of ${counted(rows.length, "task")}`],
          ]}
        />
        {elsewhere.length > 0 && mayChange() && (
          <p>
            <a href={link(["jobs", job, "changes", "new"], { kind: "assign" })}>plan to move {elsewhere.length === 1 ? "it" : "them"}</a>
          </p>
        )}
        <Command of={["assign", "explain", job, "TASK"]} />
      </Panel>
      {of.before && <Matrix title="Partitions read, rack by rack, as it is" of={of.before} />}
      {of.after && elsewhere.length > 0 && <Matrix title="Partitions read, rack by rack, as it should be" of={of.after} />}
      <Tasks rows={route.value.query.all === "1" ? rows : elsewhere} racks={of.racks} />
    </>
  );
}

function Matrix({ title, of }: { title: string; of: Traffic }) {
  const readers = Object.keys(of.read).sort();
  const sources = [...new Set(Object.values(of.read).flatMap((each) => Object.keys(each)))].sort();
  if (readers.length === 0) return null;
  return (
    <Panel title={title} note="each partition once for each lane that reads it">
      <div class="scroll">
        <table>
          <thead>
            <tr>
              <th scope="col">read by</th>
              {sources.map((each) => (
                <th key={each} scope="col" class="number">
                  from <Text of={each || "rack ?"} />
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {readers.map((reader) => (
              <tr key={reader}>
                <th scope="row">
                  <Text of={reader || "rack ?"} />
                </th>
                {sources.map((source) => (
                  <td key={source} class="number">
                    {count(of.read[reader]?.[source] ?? 0)}
                    {source !== reader && (of.read[reader]?.[source] ?? 0) > 0 && <span class="dim"> across</span>}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Panel>
  );
}

function Tasks({ rows, racks }: { rows: Row[]; racks: Found["racks"] }) {
  const all = route.value.query.all === "1";
  const at = (seat: string) => `${seat}${racks[seat] ? ` (${racks[seat]})` : ""}`;
  return (
    <Panel title={all ? "All tasks" : "Tasks that should be elsewhere"}>
      <label class="tools">
        <input type="checkbox" checked={all} onChange={(event) => setQuery({ all: event.currentTarget.checked ? "1" : "" }, true)} /> all tasks, with why each is where it is
      </label>
      {rows.length === 0 ? (
        <Empty>None: each is where it should be.</Empty>
      ) : (
        <Table
          name="tasks"
          caption="Tasks, where they are and where they should be"
          columns={[
            { id: "task", title: "task", cell: (row) => <Text of={row.task} />, by: (row) => row.task },
            { id: "stage", title: "stage", cell: (row) => <Text of={row.stage} />, by: (row) => row.stage },
            { id: "seat", title: "in seat", cell: (row) => <Text of={at(row.seat)} />, by: (row) => row.seat },
            { id: "should", title: "should be in", cell: (row) => (row.seat === row.should ? <span class="dim">there</span> : <Text of={at(row.should)} />), by: (row) => row.should },
            { id: "why", title: "why", wide: true, cell: (row) => <Text of={row.why} /> },
          ]}
          rows={rows}
          id={(row) => `${row.stage} ${row.task}`}
          text={(row) => `${row.task} ${row.stage} ${row.why}`}
          empty="None."
        />
      )}
    </Panel>
  );
}
