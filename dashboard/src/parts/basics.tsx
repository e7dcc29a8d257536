// The small pieces of all pages. Text from outside goes through <Text>, and never anywhere else.

import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { ApiError } from "../api";
import { commandLine, count, moment, offset, shown, UNKNOWN, zoneName } from "../format";
import { age, DEAD, type Resource, STALE } from "../poll";

const LONG = 4_000;

export function Text({ of }: { of: string | null | undefined }) {
  if (of === null || of === undefined || of === "") return <>{UNKNOWN}</>;
  const cut = of.length > LONG;
  return <bdi class="text">{shown(cut ? of.slice(0, LONG) : of) + (cut ? ` … (${count(of.length)} characters)` : "")}</bdi>;
}

type Tone = "good" | "busy" | "bad" | "calm" | "odd";

const tones: Record<string, Tone> = {
  running: "good",
  alive: "good",
  done: "good",
  starting: "busy",
  changing: "busy",
  draining: "busy",
  stopping: "busy",
  planned: "busy",
  closing: "busy",
  open: "busy",
  attention: "busy",
  "not heard": "busy",
  failed: "bad",
  lost: "bad",
  stopped: "calm",
  drained: "calm",
  reset: "calm",
  closed: "calm",
  undone: "calm",
  ended: "calm",
  notice: "calm",
};
const shapes: Record<Tone, string> = { good: "●", busy: "◆", bad: "✕", calm: "○", odd: "▨" };

/** A state as shape, word and colour. */
export function Status({ of }: { of: string | null | undefined }) {
  const word = of || "not known";
  const tone = tones[word] ?? "odd";
  return (
    <span class={`status ${tone}`}>
      <span aria-hidden="true" class="shape">
        {shapes[tone]}
      </span>
      <span>{shown(word)}</span>
    </span>
  );
}

/** A moment, in the zone that was chosen, with UTC beside it for who points at it. ms since 1970. */
export function Moment({ ms, day = true }: { ms: number | null | undefined; day?: boolean }) {
  if (ms === null || ms === undefined) return <>{UNKNOWN}</>;
  const name = zoneName();
  const inZone = `${moment(ms, name)} ${offset(ms, name)} ${name}`;
  const inUtc = `${moment(ms, "UTC")} UTC`;
  const iso = Math.abs(ms) < 8.64e15 ? new Date(ms).toISOString() : undefined;
  return (
    <time dateTime={iso} title={name === "UTC" ? inUtc : `${inZone}\n${inUtc}`}>
      {day ? moment(ms, name) : moment(ms, name).slice(11)}
    </time>
  );
}

/** The same in both zones, for details. */
export function BothZones({ ms }: { ms: number | null | undefined }) {
  if (ms === null || ms === undefined) return <>{UNKNOWN}</>;
  const name = zoneName();
  return (
    <span>
      <Moment ms={ms} /> {offset(ms)} {name}
      {name !== "UTC" && <span class="dim"> · {moment(ms, "UTC")} UTC</span>}
    </span>
  );
}

export function Bar({ part, label }: { part: number | null; label: string }) {
  const width = part === null ? 0 : Math.max(0, Math.min(1, part));
  return (
    <span class={`bar ${part === null ? "unknown" : ""}`} role="img" aria-label={label} title={label}>
      <span class="fill" style={{ transform: `scaleX(${width})` }} />
    </span>
  );
}

export function Problem({ of, again }: { of: ApiError; again?: () => void }) {
  return (
    <div class="problem" role="alert">
      <p>
        <strong>
          <Text of={of.message} />
        </strong>
      </p>
      {of.cure && (
        <p>
          <Text of={of.cure} />
        </p>
      )}
      <p class="dim">
        {of.status > 0 && `HTTP ${of.status} · `}request {of.id}{" "}
        {again && (
          <button type="button" onClick={again}>
            try again
          </button>
        )}
      </p>
    </div>
  );
}

export function Empty({ children }: { children: ComponentChildren }) {
  return <p class="empty">{children}</p>;
}

export function Panel({ title, note, children }: { title: string; note?: ComponentChildren; children: ComponentChildren }) {
  return (
    <section class="panel" aria-label={title}>
      <header>
        <h2>{title}</h2>
        {note !== undefined && <span class="dim">{note}</span>}
      </header>
      {children}
    </section>
  );
}

/** A part of a page that has its own data: what is loading, failed, missing or old about them is said here. They may only
 * be asked for after others: if those fail, they would be waited for in vain. */
export function Loaded<T>({
  of,
  after,
  unknown,
  children,
}: {
  of: Resource<T>;
  after?: Resource<unknown>;
  unknown?: string;
  children: (data: T) => ComponentChildren;
}) {
  if (after && after.data.value === null) return <Loaded of={after}>{() => null}</Loaded>;
  const error = of.error.value;
  const data = of.data.value;
  if (error?.isUnknownCall && unknown) return <Empty>{unknown}</Empty>;
  if (data === null) return error && !error.isOffline ? <Problem of={error} again={() => void of.ask()} /> : <Skeleton />;
  // In this order: whoever looks at the age is drawn again with each tick, and all that is in here with it.
  const old = error !== null && (age(of) ?? 0) > DEAD;
  return (
    <>
      {error && !error.isOffline && <Problem of={error} again={() => void of.ask()} />}
      <div class={old ? "old" : ""}>{children(data)}</div>
    </>
  );
}

/** There from the first moment, and seen after 150 ms: what comes at once doesn't flicker, and it can be told that a part
 * waits for its data. */
function Skeleton() {
  const [late, setLate] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setLate(true), 150);
    return () => clearTimeout(timer);
  }, []);
  return (
    <div class="skeleton" role="status" aria-label="loading" hidden={!late}>
      <span />
      <span />
      <span />
    </div>
  );
}

/** How old the figures are, as a word and a shape when they are. */
export function Age({ of }: { of: Resource<unknown> }) {
  const ms = age(of);
  if (ms === null) return <span class="age">no data yet</span>;
  const text = `data ${Math.floor(ms / 1000)} s old`;
  if (ms <= STALE) return <span class="age">{text}</span>;
  return (
    <span class={`age ${ms > DEAD ? "dead" : "stale"}`}>
      <span aria-hidden="true">{ms > DEAD ? "✕ " : "▲ "}</span>
      {ms > DEAD ? `not current: ${text}` : `stale: ${text}`}
    </span>
  );
}

/** Names and values, one below the other. */
export function Facts({ of }: { of: [string, ComponentChildren][] }) {
  return (
    <dl class="facts">
      {of.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** A line for the shell, out of its words after "anabranch". Where the browser has no clipboard (plain http of another machine) it is selected instead. */
export function Command({ of }: { of: readonly string[] }) {
  const line = commandLine(of);
  const [said, say] = useState("");
  const copy = (event: Event) => {
    const field = (event.currentTarget as HTMLElement).previousElementSibling as HTMLInputElement;
    field.select();
    if (navigator.clipboard) {
      navigator.clipboard.writeText(line).then(
        () => say("copied"),
        () => say("selected: copy it by hand"),
      );
    } else {
      say("selected: copy it by hand");
    }
  };
  return (
    <span class="command">
      <input readOnly value={line} aria-label="the same on the command line" />
      <button type="button" onClick={copy}>
        copy
      </button>
      <span role="status" class="dim">
        {said}
      </span>
    </span>
  );
}
