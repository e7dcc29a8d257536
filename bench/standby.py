"""How long a stateful lane takes until its first batch in another place, with a standby of its folder and without.

The storage root is distant: it is on a WebHDFS server that the command starts, which delays each request, and limits
the speed of each connection. ``taken over`` is the time from when a process begins to take over a lane (whose former
process is gone, and has lost its lease) until the lane's first batch is committed. ``moved`` is the time from a
``scale`` that divides a running lane between two containers until both new lanes have committed records. A pair
consists of one run without a standby and one with a standby, in the same Spark session.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
from pyspark.sql import SparkSession
from structlog.testing import capture_logs
from tests.integration import harness
from tests.integration.harness import Deployed, Site
from tests.integration.serving import served_by_two, until
from tests.support.interruption import interruptible

from anabranch import Job, crash_points
from anabranch.config import Settings, StorageSettings
from anabranch.container.checkpoint import copying
from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.store.store import Store
from anabranch.protocol.commands import ScaleRequest
from anabranch.protocol.deployment import StartRequest
from anabranch.protocol.lane_report import LaneReport
from anabranch.spark.session import session
from anabranch.systems.systems import Systems
from bench.support import far
from bench.support.far import Far

PARTITIONS, BATCHES, LAST = 4, 10, 100


class Away(Site):
    """A site whose lanes are in distant storage."""

    def __init__(self, spark: SparkSession, folder: Path, storage: Far) -> None:
        super().__init__(spark, folder)
        self.lanes = f"{storage.uri}/{folder.name}"
        self.lane_folders = type(self.lane_folders)(
            spark, self.lanes, self.lane_folders.clocks, self.lane_folders.systems
        )

    def fed(self, keys: int) -> Deployed:
        """A running count for each of ``keys`` keys, with its input. Nothing has run yet."""
        self.log.create("in", PARTITIONS)
        job = Job("j")
        job.read("in", key="k string", schema="n int").agg(c="count(*)", s="sum(n)", m="max(n)").write("out")
        each = keys // (PARTITIONS * BATCHES)
        for batch in range(BATCHES):
            for partition in range(PARTITIONS):
                self.feed(partition, range(batch * each, (batch + 1) * each))
        return self.deployed(job, state_partitions=PARTITIONS, max_rows_per_batch=keys // BATCHES)

    def feed(self, partition: int, numbers: range) -> None:
        self.put(
            "in", partition, [b'{"n":%d}' % n for n in numbers], [b"key-%d-%09d" % (partition, n) for n in numbers]
        )


def taken_over(site: Away, run: Deployed, warm: bool) -> tuple[float, float, int]:
    """The seconds until the folder was copied, the seconds until the first batch was committed, and the number of files
    that were copied meanwhile.
    """
    (lane,) = run.lanes
    if warm:
        folder = run.folder(lane)
        copying.refresh(folder, copying.standby(folder, 0))
        site.feed(0, range(LAST))  # a batch that the standby lacks, as is usual
        run.ran()
    site.feed(1, range(LAST))
    run.lanes = [msgspec.structs.replace(run.lanes[0], abandoned=True)]
    committed: list[float] = []

    def see(step: str, *_: object) -> None:
        if step == crash_points.COMMITTED:
            committed.append(time.monotonic())

    begun = time.monotonic()
    with capture_logs() as said, crash_points.watched(see):
        run.ran()
    (told,) = [line for line in said if line["event"] == "a folder was copied"]
    assert told["warm"] is warm
    return told["seconds"], committed[0] - begun, told["files"]


def moved(site: Away, keys: int, storage: Far, far_by: tuple[float, float], warm: bool) -> float:
    """Seconds from the request to divide a lane until both of its successors have committed records."""
    storage.latency, storage.speed = 0.0, 1e12
    run = site.fed(keys)
    coordinator = Coordinator(Store("sqlite://"), grace=1000.0, systems=Systems(run.settings, "j"))
    settings: dict[str, Any] = {"assignment": {"standbys": int(warm)}}
    lanes = tuple(run.lanes)
    coordinator.start(
        StartRequest(graph=run.job.graph, model=run.plan.model, lanes=lanes, fingerprint={}, settings=settings)
    )

    def reports() -> list[LaneReport]:
        return [lane.report for lane in coordinator.status("j").lanes if lane.report is not None]

    def is_read() -> bool:
        its = [report.progress for report in reports()]
        return bool(its) and all(each.positions and each.positions == each.ends for each in its)

    def scale() -> None:
        until(is_read, 240)
        storage.latency, storage.speed = far_by
        coordinator.scale("j", ScaleRequest(containers=2))

    with capture_logs() as said, served_by_two(run, coordinator, scale):
        begun = time.monotonic()
        while coordinator.status("j").state != "running" or not all(r.progress.first_output for r in reports()):
            for partition in range(PARTITIONS):
                site.feed(partition, range(LAST))
            time.sleep(0.2)
            assert time.monotonic() < begun + 240
        (change,) = coordinator.changes("j")
        found = max(r.progress.first_output for r in reports()) - change.began
    assert {line["warm"] for line in said if line["event"] == "a folder was copied"} == {warm}
    return found


def main() -> None:
    interruptible()
    words = argparse.ArgumentParser(prog="python -m bench.standby", description=__doc__)
    words.add_argument("--keys", type=int, default=1_000_000)
    words.add_argument("--pairs", type=int, default=3)
    words.add_argument("--latency", type=float, default=0.02, help="seconds of each request (default: 0.02)")
    words.add_argument("--speed", type=float, default=1e8, help="bytes a second of a connection (default: 1e8)")
    words.add_argument("--only", choices=("taken-over", "moved"))
    given = words.parse_args()
    harness.PATIENCE = 300.0
    with tempfile.TemporaryDirectory(prefix="anabranch-standby-") as made, ExitStack() as stack:
        folder = Path(made)
        (folder / "far").mkdir()
        storage = stack.enter_context(far.served(folder / "far", 0.0, 1e12))
        spark = session.start(Settings(storage=StorageSettings(root=storage.uri)), "", folder / "spark.log")
        stack.callback(spark.stop)
        if given.only != "moved":
            _take_over(Away(spark, _new(folder / "taken"), storage), storage, given)
        if given.only != "taken-over":
            _move(spark, folder, storage, given)


def _new(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _take_over(site: Away, storage: Far, given: argparse.Namespace) -> None:
    run = site.fed(given.keys)
    run.ran()
    folder = run.folder(run.lanes[0])
    files = [
        path for path in (storage.folder / folder.uri.removeprefix(f"{storage.uri}/")).rglob("*") if path.is_file()
    ]
    size = sum(path.stat().st_size for path in files)
    print(f"{given.keys:,} keys: {size / 1e6:.0f} MB in {len(files)} files; ", end="")
    print(f"{given.latency * 1000:.0f} ms a request, {given.speed / 1e6:.0f} MB/s a connection", flush=True)
    storage.latency, storage.speed = given.latency, given.speed
    found: dict[bool, list[float]] = {False: [], True: []}
    for number in range(given.pairs + 1):
        for warm in (False, True):
            copied, first, count = taken_over(site, run, warm)
            if number:  # the first pair loads classes
                found[warm].append(first)
                how = "with" if warm else "without"
                print(f"taken over {how} a standby: {first:.2f} s, {copied:.2f} of them for {count} files", flush=True)
    _compare("taken over", found)


def _move(spark: SparkSession, folder: Path, storage: Far, given: argparse.Namespace) -> None:
    found: dict[bool, list[float]] = {False: [], True: []}
    for number in range(given.pairs):
        for warm in (False, True):
            site = Away(spark, _new(folder / f"moved-{number}-{warm}"), storage)
            pause = moved(site, given.keys, storage, (given.latency, given.speed), warm)
            found[warm].append(pause)
            print(f"moved {'with' if warm else 'without'} a standby: {pause:.2f} s", flush=True)
    _compare("moved", found)


def _compare(what: str, found: dict[bool, list[float]]) -> None:
    without, with_one = (statistics.median(found[warm]) for warm in (False, True))
    print(f"{what}: median {without:.2f} s without, {with_one:.2f} s with: {without / with_one:.1f} times", flush=True)


if __name__ == "__main__":
    main()
