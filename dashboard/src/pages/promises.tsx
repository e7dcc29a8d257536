// What each output of the job promises.

import { Loaded, Panel, Text } from "../parts/basics";
import { jobPath } from "../data";
import { useResource } from "../poll";
import type { Graph } from "../types";

export function Promises({ job }: { job: string }) {
  const graph = useResource<Graph>(jobPath(job, "/graph"), 30_000);
  return (
    <Panel title="What its outputs promise">
      <Loaded of={graph}>
        {({ promises }) =>
          Object.keys(promises).length === 0 ? (
            <p class="empty">It has no outputs that are streams or tables.</p>
          ) : (
            <ul>
              {Object.entries(promises).map(([output, promise]) => (
                <li key={output}>
                  <strong>
                    <Text of={output} />
                  </strong>
                  : <Text of={promise} />
                </li>
              ))}
            </ul>
          )
        }
      </Loaded>
    </Panel>
  );
}
