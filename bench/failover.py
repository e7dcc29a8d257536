"""The time from a container's SIGKILL to the first record of its successor, started afterwards or already standing by.

A job on the embedded log, or on Kafka with ``--kafka``, has a backlog and small batches. Its container is killed while
it works on the backlog. The clock starts at the SIGKILL. The killed container's Java process and Python workers live on
for a second or two, so a record counts as the successor's only if it arrives after they have ended. The command looks
for new records every 10 ms.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from tests.acceptance.harness import LATE, Process, Workspace
from tests.soak import failover
from tests.support import kafka_peers
from tests.support.interruption import interruptible

ROWS, BATCHES = 1500, 120
LEASE, GRACE = 10.0, 2.0
COLD, WARM = "cold", "warm"
ALLOWED = LEASE + GRACE + 4.0
SETTINGS = {"coordinator__lease": "10 seconds", "coordinator__grace": "2 seconds", "coordinator__period": "2 seconds"}


def measured(how: str, seed: int, on_kafka: bool, stands_by: float) -> tuple[float, float]:
    """Measure one fail-over. Returns the seconds until the successor has its seat, and until its first record."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="anabranch-failover-")))
        cluster = stack.enter_context(kafka_peers.start(folder / "cluster")) if on_kafka else None
        workspace = Workspace(folder, cluster)
        stack.callback(workspace.close)
        batches = BATCHES + round(2 * stands_by)  # some must be left after the kill; each takes half a second or more
        served = failover.Served(workspace, ROWS * batches, seed)
        workspace.settings |= {**SETTINGS, "job__max_rows_per_batch": ROWS, "job__target_batch_seconds": 0}
        served.end()
        served.lead()
        served.start()
        first = served.container()
        first.until("batches", lambda: workspace.committed("0-") >= 3)
        if how == WARM:
            second = served.container()
            second.until("it is warm", lambda: ": warm" in second.stderr)
            time.sleep(stands_by)
        served.check_under_way()
        begun = time.monotonic()
        first.kill()
        before = ends(workspace)
        if how == COLD:
            second = served.container()
        second.until("its seat", lambda: failover.seat_of(second) is not None)
        seated = time.monotonic()
        return seated - begun, shown(workspace, second, before) - begun


def ends(workspace: Workspace) -> int:
    return sum(workspace.system.ends(LATE).values())


def shown(workspace: Workspace, process: Process, before: int) -> float:
    """Wait until the output has more than ``before`` records. Returns the time of this moment."""
    while ends(workspace) <= before:
        assert not process.ended, process.stderr
        time.sleep(0.01)
    return time.monotonic()


def main() -> None:
    interruptible()
    words = argparse.ArgumentParser(prog="scripts/bench failover", description=__doc__)
    words.add_argument("--rounds", type=int, default=3, help="how often each (default: 3)")
    words.add_argument("--only", choices=(COLD, WARM))
    words.add_argument("--kafka", action="store_true", help="on a broker of its own")
    words.add_argument("--stands-by", type=float, default=5, help="seconds, once it is warm (default: 5)")
    given = words.parse_args()
    for how in (given.only,) if given.only else (COLD, WARM):
        seconds = []
        for seed in range(given.rounds):
            seated, first = measured(how, seed, given.kafka, given.stands_by)
            seconds.append(first)
            print(f"{how}: {first:.1f} s, {first - seated:.1f} of them with its seat", flush=True)
        goal = f"; goal {ALLOWED:.0f} s" if how == WARM else ""
        print(f"{how}: median {statistics.median(seconds):.1f} s, worst {max(seconds):.1f} s{goal}", flush=True)


if __name__ == "__main__":
    main()
