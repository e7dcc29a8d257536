// Dead letters: what was rejected, and why?

import { Empty, Loaded, Moment, Panel, Text } from "../parts/basics";
import { Command } from "../parts/basics";
import { jobPath, liveOf } from "../data";
import { count, counted, shown } from "../format";
import { useResource } from "../poll";
import { link, route, setQuery } from "../router";
import { mayChange } from "../session";
import type { Content, DeadLetters as Letters, Letter } from "../types";
import { useState } from "preact/hooks";

export function DeadLetters({ job }: { job: string }) {
  const { stream = "" } = route.value.query;
  const live = liveOf(job);
  const found = useResource<Letters>(jobPath(job, `/dead-letters?limit=1000${stream ? `&stream=${encodeURIComponent(stream)}` : ""}`), 0, mayChange());
  return (
    <>
      <h1>Dead letters</h1>
      <Loaded of={live}>
        {(data) => (
          <Panel title="How many" note="by the open lanes, since they were started">
            <ul>
              {data.lanes.filter((each) => Number(each.deadLetters ?? 0) > 0).map((each) => (
                <li key={each.id}>
                  <a href={link(["jobs", job, "lanes", each.id])}><Text of={each.id} /></a>: {count(each.deadLetters)}
                </li>
              ))}
            </ul>
            {data.lanes.every((each) => Number(each.deadLetters ?? 0) === 0) && <Empty>None. Those of earlier lanes and starts are only in the streams below. With on_error = drop, records are counted, not kept.</Empty>}
          </Panel>
        )}
      </Loaded>
      <Panel title="The newest">
        {mayChange() ? (
          <Loaded of={found}>
            {(data) => (
              <>
                <Browse job={job} of={data} again={() => void found.ask()} />
                <Command of={["show", "dead-letters", job, ...(data.stream ? ["--stream", data.stream] : []), "--limit", "100"]} />
              </>
            )}
          </Loaded>
        ) : (
          <Empty>This token may only read how jobs are: records are shown to those who have the other one.</Empty>
        )}
      </Panel>
    </>
  );
}

function Browse({ job, of, again }: { job: string; of: Letters; again: () => void }) {
  const { group = "" } = route.value.query;
  const groups = new Map<string, { name: string; times: number }>();
  for (const each of of.letters) {
    const name = nameOf(each);
    groups.set(idOf(name), { name, times: (groups.get(idOf(name))?.times ?? 0) + 1 });
  }
  if (group && !groups.has(group)) groups.set(group, { name: "those of the address", times: 0 });
  const rows = group ? of.letters.filter((each) => idOf(nameOf(each)) === group) : of.letters;
  return (
    <>
      <div class="tools">
        <label>
          stream{" "}
          <select value={of.stream} onChange={(event) => setQuery({ stream: event.currentTarget.value, group: "" }, true)}>
            {of.streams.map((each) => (
              <option key={each} value={each}>{shown(each)}</option>
            ))}
          </select>
        </label>
        <label>
          error and operator{" "}
          <select value={group} onChange={(event) => setQuery({ group: event.currentTarget.value }, true)}>
            <option value="">all {count(of.letters.length)}</option>
            {[...groups].sort((one, other) => other[1].times - one[1].times).map(([id, { name, times }]) => (
              <option key={id} value={id}>
                {count(times)} × {shown(name)}
              </option>
            ))}
          </select>
        </label>
        <span class="dim">
          of the newest {count(of.letters.length)}
          {of.partly && ": reading them was broken off, there are more"}
        </span>
        <button type="button" onClick={again}>
          look again
        </button>
      </div>
      {rows.length === 0 && <Empty>{of.letters.length > 0 ? "None of the newest is of this error and operator." : of.stream ? "None is there." : "The job has no stream for them: see [job] on_error."}</Empty>}
      <ul class="letters" aria-label="dead letters, the newest first">
        {rows.slice(0, 200).map((each) => (
          <li key={`${each.partition} ${each.offset}`}>
            <Moment ms={each.at} /> <strong><Text of={each.operator} /></strong>: <Text of={each.error} />
            <div class="dim">
              <Text of={`${of.stream}/${each.partition}`} />, offset {count(each.offset)}
              {each.origin && (
                <>
                  {" "}· came from{" "}
                  <a href={link(["jobs", job, "partitions"], { find: `${each.origin.stream}/${each.origin.partition}` })}>
                    <Text of={`${each.origin.stream}/${each.origin.partition}`} />
                  </a>
                  , offset {count(each.origin.offset)}
                </>
              )}
            </div>
            <Bytes name="key" of={each.key} />
            <Bytes name="value" of={each.value} />
          </li>
        ))}
      </ul>
      {rows.length > 200 && <p class="dim">{count(rows.length - 200)} more aren't shown.</p>}
    </>
  );
}

/** The first line of the error, cut between characters. */
function nameOf(of: Letter): string {
  const line = of.error.split("\n", 1)[0]!.slice(0, 240);
  return `${of.operator}: ${[...line].slice(0, 120).join("")}`;
}

/** Names a group in the address without saying what it is: errors can have values of records in them. */
function idOf(name: string): string {
  let hash = 0x811c9dc5; // FNV-1a
  for (let at = 0; at < name.length; at += 1) hash = Math.imul(hash ^ name.charCodeAt(at), 0x01000193);
  return (hash >>> 0).toString(36);
}

export function Bytes({ name, of }: { name: string; of: Content | null }) {
  const [hex, setHex] = useState(false);
  if (of === null) return <div class="dim">no {name}</div>;
  const isBinary = of.text === undefined || of.text === null;
  return (
    <div class="bytes">
      <span class="dim">{name}</span> <code>{of.bytes === 0 ? "empty" : hex || isBinary ? hexOf(of) : <Text of={of.text} />}</code>
      <span class="dim">
        {" "}{counted(of.bytes, "byte")}{of.cut && ", cut"}
      </span>{" "}
      {!isBinary && of.bytes > 0 && (
        <button type="button" onClick={() => setHex(!hex)} aria-pressed={hex}>
          hex
        </button>
      )}
    </div>
  );
}

function hexOf(of: Content): string {
  const bytes = !of.base64 ? new TextEncoder().encode(of.text ?? "") : Uint8Array.from(atob(of.base64), (each) => each.charCodeAt(0));
  return Array.from(bytes.slice(0, 1_024), (each) => each.toString(16).padStart(2, "0")).join(" ");
}
