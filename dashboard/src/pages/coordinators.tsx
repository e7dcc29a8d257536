// The coordinator that serves this page.

import { Command, Facts, Loaded, Panel, Status, Text } from "../parts/basics";
import { coordinator } from "../data";
import { count, seconds } from "../format";
import { mayChange } from "../session";

export function Coordinators() {
  const found = coordinator();
  return (
    <>
      <h1>Coordinator</h1>
      <Panel title="This one">
        <Loaded of={found} unknown="This coordinator says nothing about itself.">
          {(data) => (
            <Facts
              of={[
                ["leads", <>{data.leads ? <Status of="running" /> : <Status of="stands by" />}</>],
                ["leader", <Text of={data.leader} />],
                ["version", <Text of={data.program} />],
                ["store", <Text of={data.store} />],
                ["lease and grace", `${seconds(data.lease)}, ${seconds(data.grace)}`],
                ["heartbeats refused", count(data.invalidHeartbeats)],
                ["this token may", mayChange() ? "read and change" : "read"],
              ]}
            />
          )}
        </Loaded>
        <Command of={["jobs"]} />
      </Panel>
    </>
  );
}
