"""A ``process`` whose tasks part and come together again: each timer goes off once, wherever it is by then."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest
from pyspark.sql import SparkSession

from anabranch import Job, Processor, Timers, ValueState, crash_points
from anabranch.container.checkpoint import compaction
from anabranch.container.checkpoint.folder import Folder
from tests.integration.harness import Site
from tests.integration.parted import KEYS, Parted

START = datetime(2026, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


class Once(Processor):
    """For each key one timer, some minutes after its first message, which tells how many messages there were."""

    count = ValueState("long")

    def on_message(self, message: dict[str, Any], timers: Timers) -> None:
        if self.count.get() is None:
            timers.register(START + MINUTE * (message["n"] % 40 + 41))
        self.count.set(self.count.get(0) + 1)

    def on_timer(self, key: dict[str, Any], at: datetime, timers: Timers) -> Iterator[dict[str, Any]]:
        yield {"k": key["k"], "n": self.count.get()}


def once() -> Job:
    job = Job("j")
    read = job.read("in", key="k string", schema="n int, at timestamp", event_time="at", watermark="0 seconds")
    read.process(Once(), schema="k string, n long", timers="event_time", name="once").write("out")
    return job


def row(n: int) -> dict[str, Any]:
    """Number 40 is at 40 minutes: the first timer goes off after it."""
    return {"n": n, "at": (START + MINUTE * n).isoformat()}


def check_schemas(folder: Folder) -> None:
    """Spark finds the schemas of the state in the folder itself, not where it was copied from."""
    root = Path(urlsplit(folder.uri).path)
    told = [json.loads(file.read_text().split("\n")[1]) for file in root.glob("state/0/_metadata/v2/[0-9]*")]
    paths = [path for each in told for store in each["stateStoreInfo"] for path in store["stateSchemaFilePaths"]]
    files = {Path(urlsplit(path).path) for path in paths}
    assert files == set(root.glob("state/0/_stateSchema/default/[0-9]*"))


@pytest.mark.long
def test_a_limit_counts_on_where_its_keys_go(site: Site) -> None:
    """Factor 1, then 4 in two containers, then 1 again: of each key two rows pass in all."""
    job = Job("j")
    job.read("in", key="k string", schema="n int, at timestamp").limit_per_key(2, name="first").write("out")
    parted = Parted(site, job, row, partitions=1)
    parted.put(52)  # 12 of the 40 keys have come twice
    parted.scale(4, 2)
    parted.put(8)
    parted.scale(1, 1)
    parted.put(40)
    assert Counter(value["k"] for value in site.values("out")) == dict.fromkeys(KEYS, 2)


class Crash(Exception):
    """The process dies."""


@pytest.mark.long
def test_each_timer_goes_off_once(spark: SparkSession, site: Site) -> None:
    """Factor 1; 4 in two containers, of which one is killed and both are compacted; and 1 again."""
    parted = Parted(site, once(), row, partitions=1)

    def told() -> Counter[str]:
        return Counter(value["k"] for value in site.values("out"))

    parted.put(52)
    assert 5 < told().total() < 20
    parted.scale(4, 2)
    assert [len(lane.ssps) for lane in parted.job.lanes] == [2, 2], "buckets of one partition part"
    crashed: list[str] = []

    def crash(step: str, lane: str, batch: int) -> None:
        if step == crash_points.PUBLISHED and not crashed:
            crashed.append(lane)
            raise Crash

    parted.add(8)
    with crash_points.watched(crash):
        parted.job.run()
    assert [report.phase for report in parted.job.reports.values()] == ["failed", "ended"]
    parted.put(1)
    assert 15 < told().total() < 30
    for number, lane in enumerate(parted.job.lanes):
        folder = parted.job.folder(lane)
        found = compaction.look(spark, lane, folder.uri, keys=1)
        assert 0 < found.size.foreign_rows < found.size.rows
        check_schemas(folder)
        compaction.rewrite(spark, found, folder.uri.rsplit("/", 1)[0] + "/100")
        folder.remove()
        parted.job.lanes[number] = msgspec.structs.replace(lane, folder_epoch=100)
    parted.job.epoch = 101
    parted.scale(1, 1)
    assert len(parted.job.lanes) == 2, "side by side"
    parted.put(40)
    assert told() == dict.fromkeys(KEYS, 1)
    assert sum(value["n"] for value in site.values("out")) >= 60
