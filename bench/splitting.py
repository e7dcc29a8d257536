"""What a change of the factor costs: the pause of output, and batches, memory and disk space before and after.

A job with late flights, hourly windows, and running counts in a second stage has one container. Its input has one
partition. So after ``--factor 4 --containers 2``, both containers read this partition, and each lane with state has
been split. Records arrive all the time. The seconds depend on the machine: compare those before the change with those
after.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path

from tests.acceptance.harness import INPUT, Process, Workspace
from tests.acceptance.processes import descendants
from tests.soak import scaled
from tests.soak.served import JOB, Served
from tests.support import kafka_peers
from tests.support.interruption import interruptible

ROWS, PORTION = 20_000, 2_000
WISH = {"factor": 4, "containers": 2}
SETTLED = 20
"""How many batches each lane runs before the lanes are measured."""


def measured(workspace: Workspace) -> None:
    workspace.system.create(INPUT, 1)
    served = Served(workspace, count=ROWS, seed=1, later=PORTION * 200)
    workspace.settings |= {"job__max_rows_per_batch": PORTION, "job__target_batch_seconds": 0}
    (workspace.folder / "delays.py").write_text(scaled.COUNTED.read_text())
    fed = scaled.Fed(served, PORTION)
    served.start(for_good=True)
    containers = [served.container()]
    fed.until_it_runs()
    _settled(fed)
    _told("factor 1, one container", fed, containers)
    containers.append(served.container())
    scaled.stands_by(containers[-1])
    scaling = fed.scaling(WISH)
    fed.until("the change is made", lambda: scaling.ended)
    if scaling.wait() != 0:
        raise SystemExit(scaling.stderr)
    print(f"scale: {scaling.stderr.strip().splitlines()[-1]}", flush=True)
    _settled(fed)
    _told("factor 4, two containers that read the same partition", fed, containers)
    (change,) = fed.client.changes(JOB)
    print(f"the pause of output: {change.measured_pause} s measured, {change.predicted_pause} s predicted", flush=True)
    workspace.call("stop", JOB, coordinator__url=served.url)
    served.end()


def _settled(fed: scaled.Fed) -> None:
    """Wait until each lane has run :data:`SETTLED` more batches."""
    lanes = fed.client.status(JOB).lanes
    begun = {lane.lane.id: lane.report.progress.batch for lane in lanes if lane.report is not None}

    def done() -> bool:
        lanes = [lane.report for lane in fed.client.status(JOB).lanes if lane.report is not None]
        return all(report.progress.batch >= begun.get(report.lane, 0) + SETTLED for report in lanes)

    fed.until("some batches", done)


def _told(what: str, fed: scaled.Fed, containers: list[Process]) -> None:
    reports = [lane.report for lane in fed.client.status(JOB).lanes if lane.report is not None]
    batch = statistics.median(report.load.usual_seconds for report in reports)
    memory = [sum(_resident_mb(pid) for pid in (each.popen.pid, *descendants(each.popen.pid))) for each in containers]
    disk = sum(map(_size, fed.workspace.lanes.rglob("*")))
    print(
        f"{what}: a batch {batch:.2f} s (median of lanes); memory {' + '.join(map(str, memory))} MB; "
        f"lanes' folders {disk / 1e6:.1f} MB in {sum(1 for _ in fed.workspace.lanes.iterdir())} lanes",
        flush=True,
    )


def _size(path: Path) -> int:
    """The size of a file in bytes, or 0 if Spark has renamed or removed it meanwhile."""
    with suppress(FileNotFoundError):
        return path.stat().st_size if path.is_file() else 0
    return 0


def _resident_mb(pid: int) -> int:
    """The memory of a process: what only it uses, plus its share of the memory that several processes use."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) // 1000
    return 0


def main() -> None:
    interruptible()
    words = argparse.ArgumentParser(prog="scripts/bench splitting", description=__doc__)
    words.add_argument("--kafka", action="store_true", help="on a broker of its own")
    given = words.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="anabranch-splitting-")))
        cluster = stack.enter_context(kafka_peers.start(folder / "cluster")) if given.kafka else None
        workspace = Workspace(folder, cluster)
        stack.callback(workspace.close)
        measured(workspace)


if __name__ == "__main__":
    main()
