"""From the SIGKILL of a container to the first record that its successor shows: one that is started then, and one that
stands by.

A job on the embedded log, or on Kafka with ``--kafka``, has a backlog and small batches; a lane's next record is looked
for every 10 ms. Its container is killed in the middle of it.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from tests import failover, kafka_peers
from tests.acceptance.harness import LATE, Process, Workspace

COUNT = 60_000
LEASE, GRACE = 10.0, 2.0
COLD, WARM = "cold", "warm"
ALLOWED = LEASE + GRACE + 4.0
SETTINGS = {"coordinator__lease": "10 seconds", "coordinator__grace": "2 seconds", "coordinator__period": "2 seconds"}


def measured(how: str, seed: int, on_kafka: bool) -> float:
    """Seconds, of one fail-over."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="anabranch-failover-")))
        cluster = stack.enter_context(kafka_peers.start(folder / "cluster")) if on_kafka else None
        workspace = Workspace(folder, cluster)
        stack.callback(workspace.close)
        served = failover.Served(workspace, COUNT, seed)
        workspace.settings |= {**SETTINGS, "job__max_rows_per_batch": COUNT // 40}
        served.end()
        served.lead()
        served.start()
        first = served.container()
        first.until("batches", lambda: workspace.committed("0-") >= 3)
        if how == WARM:
            second = served.container()
            second.until("it stands by", lambda: "standing by" in second.stderr)
            time.sleep(10.0)  # its throw-away batch
        served.check_under_way()
        first.kill()
        before, begun = ends(workspace), time.monotonic()
        if how == COLD:
            second = served.container()
        return shown(workspace, second, before) - begun


def ends(workspace: Workspace) -> int:
    return sum(workspace.system.ends(LATE).values())


def shown(workspace: Workspace, process: Process, before: int) -> float:
    """When there are more records."""
    while ends(workspace) <= before:
        assert not process.ended, process.stderr
        time.sleep(0.01)
    return time.monotonic()


def main() -> None:
    words = argparse.ArgumentParser(prog="scripts/bench failover", description=__doc__)
    words.add_argument("--rounds", type=int, default=3, help="how often each (default: 3)")
    words.add_argument("--only", choices=(COLD, WARM))
    words.add_argument("--kafka", action="store_true", help="on a broker of its own")
    given = words.parse_args()
    for how in (given.only,) if given.only else (COLD, WARM):
        seconds = []
        for seed in range(given.rounds):
            seconds.append(measured(how, seed, given.kafka))
            print(f"{how}: {seconds[-1]:.1f} s", flush=True)
        goal = f"; goal {ALLOWED:.0f} s" if how == WARM else ""
        print(f"{how}: median {statistics.median(seconds):.1f} s, worst {max(seconds):.1f} s{goal}", flush=True)


if __name__ == "__main__":
    main()
