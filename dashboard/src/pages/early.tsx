// What came out early: rows of windows that a drain cut.

import { Command, Empty, Loaded, Moment, Panel, Text } from "../parts/basics";
import { jobPath } from "../data";
import { count, counted, shown } from "../format";
import { useResource } from "../poll";
import { route, setQuery } from "../router";
import { mayChange } from "../session";
import type { EarlyOutput } from "../types";
import { Bytes } from "./deadletters";

export function Early({ job }: { job: string }) {
  const { stream = "" } = route.value.query;
  const found = useResource<EarlyOutput>(jobPath(job, `/early-output?limit=200${stream ? `&stream=${encodeURIComponent(stream)}` : ""}`), 0, mayChange());
  return (
    <Panel title="What came out early" note="rows of windows that the drain cut: the records of such a window that come later make another row">
      {mayChange() ? (
        <Loaded of={found}>{(data) => <Rows job={job} of={data} again={() => void found.ask()} />}</Loaded>
      ) : (
        <Empty>This token may only read how jobs are: records are shown to those who have the other one.</Empty>
      )}
    </Panel>
  );
}

function Rows({ job, of, again }: { job: string; of: EarlyOutput; again: () => void }) {
  if (!of.stream) return <Empty>The job writes no stream.</Empty>;
  return (
    <>
      <div class="tools">
        <label>
          output{" "}
          <select value={of.stream} onChange={(event) => setQuery({ stream: event.currentTarget.value }, true)}>
            {of.streams.map((each) => (
              <option key={each} value={each}>{shown(each)}</option>
            ))}
          </select>
        </label>
        <span class="dim">
          {counted(of.total, "row")} of the newest {counted(of.lookedAt, "record")}
          {of.partly && ": older ones weren't looked at"}
        </span>
        <button type="button" onClick={again}>
          look again
        </button>
      </div>
      {of.rows.length === 0 && <Empty>None. Only rows in JSON are marked; a job without windows of event time cuts none.</Empty>}
      <ul class="letters" aria-label="rows that came out early, the newest first">
        {of.rows.map((each) => (
          <li key={`${each.partition} ${each.offset}`}>
            <Moment ms={each.at} />{" "}
            <span class="dim">
              <Text of={`${of.stream}/${each.partition}`} />, offset {count(each.offset)}
            </span>
            <Bytes name="key" of={each.key} />
            <Bytes name="value" of={each.value} />
          </li>
        ))}
      </ul>
      {of.total > of.rows.length && <p class="dim">{count(of.total - of.rows.length)} more aren't shown.</p>}
      <Command of={["show", "early-output", job, ...(of.streams.length > 1 ? ["--stream", of.stream] : [])]} />
    </>
  );
}
