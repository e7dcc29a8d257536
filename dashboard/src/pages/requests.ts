// What is asked of a job: the kinds of changes, the request of each, and the line of the command line that does the same.

/** The changes that have a plan, those whose plan says which buckets move, and those that have none. Each is the word in
 * the path, too, of the request that makes it. */
const PLANNED = ["scale", "expand", "assign", "rewind", "rollback", "drain"] as const;
const MOVING = ["scale", "expand", "assign"] as const;
const UNPLANNED = ["stop", "cancel", "fence"] as const;

export type PlannedKind = (typeof PLANNED)[number];
export type MovingKind = (typeof MOVING)[number];
export type UnplannedKind = (typeof UNPLANNED)[number];
export type Kind = PlannedKind | UnplannedKind;

/** The kind that a word from the address names; undefined: none. Only what is found here may be sent: a page that is
 * opened asks for plans by itself, and what has none would be done. */
export function plannedKind(word: string): PlannedKind | undefined {
  return PLANNED.find((each) => each === word);
}

export function movingKind(word: string): MovingKind | undefined {
  return MOVING.find((each) => each === word);
}

export function unplannedKind(word: string): UnplannedKind | undefined {
  return UNPLANNED.find((each) => each === word);
}

export const KINDS: [Exclude<Kind, "fence">, string][] = [
  ["scale", "scale"],
  ["expand", "expand"],
  ["assign", "assign"],
  ["rewind", "rewind"],
  ["rollback", "roll back"],
  ["drain", "drain"],
  ["stop", "stop"],
  ["cancel", "take back a change"],
];

/** What is asked for, out of the form's fields in the URL; a text says what is missing. */
export function requestOf(kind: PlannedKind, query: Record<string, string>, deployment: number): Record<string, unknown> | string {
  switch (kind) {
    case "scale": {
      if (!query.factor && !query.containers) return "choose a factor or a number of containers";
      return { ...(query.factor && { factor: Number(query.factor) }), ...(query.containers && { containers: Number(query.containers) }) };
    }
    case "rewind":
      if (!query.to) return "say from where: earliest, or a time with its offset from UTC";
      return { to: query.to, ...(query.state && { state: query.state }) };
    case "drain":
      return { uuid: query.uuid ?? "", runId: deployment, mode: query.mode === "latest" ? "latest" : "planned" };
    default:
      return {};
  }
}

/** The words, after "anabranch", of the line of the command line that does the same or, with `planned`, only shows what it would do. */
export function commandOf(job: string, kind: Kind, query: Record<string, string>, planned = false): string[] {
  const options: string[] = [];
  if (kind === "scale" && query.factor) options.push("--factor", query.factor);
  if (kind === "scale" && query.containers) options.push("--containers", query.containers);
  if (kind === "rewind" && query.to) options.push("--to", query.to);
  if (kind === "rewind" && query.state) options.push("--state", query.state);
  if (kind === "drain" && query.mode === "latest") options.push("--up-to", "latest");
  if (kind === "stop" && query.now === "1") options.push("--now");
  if (kind === "fence") return ["fence", query.container ?? "CONTAINER"];
  const verb = planned ? ["plan", kind] : kind === "assign" ? ["assign", "apply"] : [kind];
  return [...verb, job, ...options];
}
