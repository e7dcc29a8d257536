"""What a batch costs where the lanes' folders are: on a disk, on HDFS, and on S3 with and without a way to it.

A job without state and one with a running count are run over the same records, with their folders in each place, in one
Spark session. Calls are those that a proxy before the S3 server sees. ``Spark's own``: Spark's files written in its own
way, by renaming, as before anabranch had one for S3.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pyspark.sql import SparkSession
from tests.integration.harness import Site
from tests.support import hdfs, s3
from tests.support.interruption import interruptible

from anabranch import Job, crash_points
from anabranch.config import Settings, SparkSettings, StorageSettings
from anabranch.spark.session import session

PARTITIONS, KEYS, ROWS, SKIPPED = 4, 200, 400, 6
"""``SKIPPED``: the first batches, which start the query and its workers."""


class Elsewhere(Site):
    """With its lanes in another place."""

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
            keys = [b"%d" % (number % KEYS) for number in numbers]
            self.put("in", partition, [b'{"n":%d}' % number for number in numbers], keys)


def job(stateful: bool) -> Job:
    made = Job("j")
    read = made.read("in", key="k string", schema="n int")
    (read.agg(c="count(*)", s="sum(n)") if stateful else read.where("n >= 0")).write("out")
    return made


def measured(site: Elsewhere, stateful: bool, batches: int, calls: s3.Proxy | None) -> str:
    """Median time of a batch in ms, and the calls of one."""
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


@contextmanager
def managed(spark: SparkSession, settings: dict[str, str]) -> Iterator[None]:
    """With Spark's files written so."""
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
            "spark.sql.streaming.minBatchesToRetain": str(SKIPPED),  # entries are removed in all batches that count
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
            for stateful in (False, True):
                site_folder = folder / f"site-{number}-{stateful}"
                site_folder.mkdir()
                with managed(spark, settings):
                    found = measured(Elsewhere(spark, site_folder, where_to), stateful, given.batches, calls)
                kind = f"{PARTITIONS} state partitions" if stateful else "no state"
                print(f"{what:32} {kind:20} {found}", flush=True)


if __name__ == "__main__":
    main()
