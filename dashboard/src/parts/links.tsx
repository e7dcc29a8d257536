// Links out of the page, to what the operator's settings name for a container: its log, Spark's own page.

import { coordinator } from "../data";
import type { LiveContainer } from "../types";
import { Text } from "./basics";

/** The address that a template gives for a container; null: it is none of the web. Values can't change its structure. */
export function filled(template: string, values: Record<string, string>): string | null {
  const address = template.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(values[name] ?? ""));
  return /^https?:\/\//i.test(address) ? address : null;
}

export function Links({ job, of }: { job: string; of: LiveContainer }) {
  const templates = Object.entries(coordinator().data.value?.links ?? {});
  const values = { job, container: of.id, seat: of.seat, host: of.host, pid: String(of.pid), rack: of.rack ?? "" };
  return (
    <>
      {templates.map(([name, template]) => {
        const address = filled(template, values);
        return (
          address && (
            <span key={name}>
              <a href={address} target="_blank" rel="noopener noreferrer">
                <Text of={name} /> <span aria-hidden="true">↗</span>
              </a>{" "}
            </span>
          )
        );
      })}
    </>
  );
}
