"""What batches, a fail-over and a scale cost if lanes' folders are on a disk, on HDFS, or on S3 with or without
latency.

A job without state and a job with a running count process the same records, with their folders in each of these places,
in one Spark session. Calls are counted by a proxy in front of the S3 server. In places with ``Spark's own``, Spark
writes its files in its own way, by renaming, as it did before anabranch had its own way for S3; in these places, only
batches are measured.

``fail-over``: the process of a lane with a running count is gone, and has lost its seat. The time is measured from when
another process starts the lane until the lane's first batch is committed. It doesn't include the lease, the grace and
the start of a process, which are the same in all places.

``scale``: while records arrive ten times a second, the factor becomes 4. The result is the longest time between two
successive published batches, in the period from the request until all new lanes have published a batch.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec
from pyspark.sql import SparkSession
from tests.integration.harness import Site
from tests.integration.serving import serve, until
from tests.support import hdfs, s3
from tests.support.interruption import interruptible

from anabranch import Job, crash_points
from anabranch.config import Settings, SparkSettings, StorageSettings
from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.store.store import Store
from anabranch.protocol.commands import ScaleRequest
from anabranch.protocol.deployment import StartRequest
from anabranch.spark.session import session
from anabranch.systems.systems import Systems

PARTITIONS, KEYS, ROWS, SKIPPED = 4, 200, 400, 6
"""``SKIPPED`` is the number of batches that aren't measured, because they start the query and its workers."""
BATCHES, SMALL, PATIENCE = 5, 5, 300.0
"""``BATCHES`` is the number of batches before a fail-over or a scale, ``SMALL`` the number of records that are then
added to each partition at a time, and ``PATIENCE`` the longest wait in seconds.
"""


class Elsewhere(Site):
    """A site whose lanes are in another place."""

    def __init__(self, spark: SparkSession, folder: Path, root: str) -> None:
        super().__init__(spark, folder)
        self.lanes = f"{root}/{folder.name}"
        self.lane_folders = type(self.lane_folders)(
            spark, self.lanes, self.lane_folders.clocks, self.lane_folders.systems
        )

    def feed(self, batches: int) -> None:
        self.log.create("in", PARTITIONS)
        for partition in range(PARTITIONS):
            numbers = range(batches * ROWS // PARTITIONS)
            self._add(partition, numbers)

    def add(self, rows: int) -> None:
        """Add ``rows`` records to each partition."""
        for partition in range(PARTITIONS):
            self._add(partition, range(rows))

    def _add(self, partition: int, numbers: range) -> None:
        keys = [b"%d" % (number % KEYS) for number in numbers]
        self.put("in", partition, [b'{"n":%d}' % number for number in numbers], keys)


def job(stateful: bool) -> Job:
    made = Job("j")
    read = made.read("in", key="k string", schema="n int")
    (read.agg(c="count(*)", s="sum(n)") if stateful else read.where("n >= 0")).write("out")
    return made


def measured(site: Elsewhere, stateful: bool, batches: int, calls: s3.Proxy | None) -> str:
    """The median time of a batch in ms and, if ``calls`` is given, the number of calls per batch."""
    site.feed(batches)
    run = site.deployed(job(stateful), state_partitions=PARTITIONS, max_rows_per_batch=ROWS)
    seen: list[tuple[float, int]] = []

    def see(step: str, *_: object) -> None:
        if step == crash_points.PUBLISHED:
            seen.append((time.monotonic(), 0 if calls is None else sum(calls.calls.values())))

    with crash_points.watched(see):
        run.ran()
    kept = seen[SKIPPED:]
    ms = statistics.median(1000 * (b[0] - a[0]) for a, b in itertools.pairwise(kept))
    a_batch = (kept[-1][1] - kept[0][1]) / (len(kept) - 1)
    return f"{ms:6.0f} ms" + ("" if calls is None else f", {a_batch:5.1f} calls")


def failed_over(site: Elsewhere, rounds: int) -> list[float]:
    """The seconds of each fail-over."""
    site.feed(BATCHES)
    run = site.deployed(job(stateful=True), state_partitions=PARTITIONS, max_rows_per_batch=ROWS)
    run.ran()
    seconds = []
    for _ in range(rounds):
        site.add(ROWS // PARTITIONS)
        run.lanes = [msgspec.structs.replace(lane, abandoned=True) for lane in run.lanes]
        committed: list[float] = []

        def see(step: str, *_: object, at: list[float] = committed) -> None:
            if step == crash_points.COMMITTED:
                at.append(time.monotonic())

        begun = time.monotonic()
        with crash_points.watched(see):
            run.ran()
        seconds.append(committed[0] - begun)
    return seconds


def scaled(site: Elsewhere) -> float:
    """How many seconds output pauses during a scale from factor 1 to 4."""
    site.feed(BATCHES)
    run = site.deployed(job(stateful=True), state_partitions=PARTITIONS, max_rows_per_batch=ROWS)
    coordinator = Coordinator(Store("sqlite://"), grace=1000.0, systems=Systems(run.settings, "j"))
    lanes = tuple(run.lanes)
    coordinator.start(StartRequest(graph=run.job.graph, model=run.plan.model, lanes=lanes, fingerprint={}, settings={}))
    published: list[float] = []
    over = threading.Event()

    def is_scaled() -> bool:
        status = coordinator.status("j")
        new = [each for each in status.lanes if each.lane.id not in {lane.id for lane in lanes}]
        return (
            status.state == "running"
            and bool(new)
            and all(each.report and each.report.progress.first_output for each in new)
        )

    def add() -> None:
        while not over.wait(0.1):
            site.add(SMALL)

    def see(step: str, *_: object) -> None:
        if step == crash_points.PUBLISHED:
            published.append(time.monotonic())

    threads = [threading.Thread(target=serve, args=(run, coordinator), daemon=True), threading.Thread(target=add)]
    with crash_points.watched(see):
        for thread in threads:
            thread.start()
        try:
            until(lambda: len(published) > 2 * BATCHES, PATIENCE)
            begun = time.monotonic()
            coordinator.scale("j", ScaleRequest(factor=4))
            until(is_scaled, PATIENCE)
            ended = time.monotonic()
        finally:
            over.set()
            coordinator.stop("j")
            for thread in threads:
                thread.join(60)
    within = [max(at for at in published if at <= begun), *(at for at in published if begun < at <= ended)]
    return max(b - a for a, b in itertools.pairwise(within))


@contextmanager
def managed(spark: SparkSession, settings: dict[str, str]) -> Iterator[None]:
    """Let Spark write its files with these settings during the block."""
    kept = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in kept.items():
            spark.conf.set(name, value)


def main() -> None:
    interruptible()
    words = argparse.ArgumentParser(prog="python -m bench.stores", description=__doc__)
    words.add_argument("--batches", type=int, default=30)
    words.add_argument("--latency", type=float, default=0.05, help="seconds (default: 0.05)")
    words.add_argument("--moves", type=int, default=3, help="how often each move is measured (default: 3)")
    given = words.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-stores-") as name, ExitStack() as stack:
        folder = Path(name)
        where = stack.enter_context(hdfs.serving(folder / "hdfs"))
        server = stack.enter_context(s3.serving(folder))
        near = stack.enter_context(s3.Proxy(server.port))
        far = stack.enter_context(s3.Proxy(server.port, given.latency))
        (server.folder / "far").mkdir()
        conf = server.conf(near.port) | {
            "spark.hadoop.fs.s3a.bucket.far.endpoint": f"http://127.0.0.1:{far.port}",
            "spark.hadoop.fs.defaultFS": "file:///",
            "spark.sql.streaming.minBatchesToRetain": str(SKIPPED),  # old entries are removed in every measured batch
        }
        root = f"s3a://{s3.BUCKET}/root"
        spark = session.start(
            Settings(storage=StorageSettings(root=root), spark=SparkSettings(master="local[2,4]", conf=conf)),
            output=Path(os.devnull),
        )
        stack.callback(session.stop, spark)
        ms = round(1000 * given.latency)
        places = [
            ("local disk", "file://" + str(folder / "lanes"), session.LOCAL_SETTINGS, None),
            ("HDFS", f"{where.uri}/lanes", session.FAR_SETTINGS, None),
            ("S3", root, session.FAR_SETTINGS, near),
            (f"S3, {ms} ms away", "s3a://far/root", session.FAR_SETTINGS, far),
            ("S3, Spark's own", root, session.SPARKS_OWN, near),
            (f"S3, {ms} ms away, Spark's own", "s3a://far/root", session.SPARKS_OWN, far),
        ]
        for number, (what, where_to, settings, calls) in enumerate(places):

            def site(kind: str, name: str = f"site-{number}", where_to: str = where_to) -> Elsewhere:
                made = folder / f"{name}-{kind}"
                made.mkdir()
                return Elsewhere(spark, made, where_to)

            with managed(spark, settings):
                for kind, stateful in (("no state", False), (f"{PARTITIONS} state partitions", True)):
                    found = measured(site(str(stateful)), stateful, given.batches, calls)
                    print(f"{what:32} {kind:20} {found}", flush=True)
                if settings is not session.SPARKS_OWN:
                    seconds = failed_over(site("failed-over"), given.moves)
                    print(f"{what:32} {'fail-over':20} {_told(seconds)}", flush=True)
                    seconds = [scaled(site(f"scaled-{each}")) for each in range(given.moves)]
                    print(f"{what:32} {'scale':20} {_told(seconds)}", flush=True)


def _told(seconds: list[float]) -> str:
    return f"{statistics.median(seconds):6.2f} s, of {', '.join(f'{each:.2f}' for each in seconds)}"


if __name__ == "__main__":
    main()
