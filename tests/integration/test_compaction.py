"""A stopped job whose lanes keep state of others: it is taken out, the rest stays, and a crash changes nothing."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest
from pyspark.sql import SparkSession

from anabranch import Job, crash_points
from anabranch.cli import compact
from anabranch.container.checkpoint import compaction
from anabranch.container.checkpoint.folder import Folder
from anabranch.coordinator.maintenance import stopped_job
from anabranch.errors import ConflictError, StateError
from anabranch.model.hashing import bucket
from anabranch.model.lane import Lane
from anabranch.spark.query import state
from anabranch.spark.query.state import StateSize
from tests.integration.harness import AT, Site
from tests.integration.parted import KEYS, Parted


class Crash(Exception):
    """The process dies."""


def tree(folder: Folder) -> dict[str, str]:
    """What is in a folder on a local disk."""
    root = Path(urlsplit(folder.uri).path)
    return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in root.rglob("*") if file.is_file()}


def owned(lane: Lane, factor: int) -> int:
    """The keys of both partitions that are a lane's."""
    mine = {(ssp.partition, max(0, ssp.key_bucket)) for ssp in lane.ssps}
    return sum((partition, bucket(key.encode(), 0, factor)) in mine for partition in (0, 1) for key in KEYS)


@pytest.mark.long
def test_foreign_state_goes_and_the_rest_stays_exact(spark: SparkSession, site: Site) -> None:
    parted = Parted(site)
    parted.put(40)
    (whole,) = parted.job.lanes
    alone = size_of(spark, parted, whole)
    assert (alone.rows, alone.foreign_rows, alone.foreign_bytes) == (80, 0, 0)
    parted.scale(4, 2)
    parted.put(20)
    store = parted.store()
    lanes = stopped_job.lanes(store, "j")
    before = {lane.id: tree(parted.job.folder(lane)) for lane in lanes}
    found = [size_of(spark, parted, lane) for lane in lanes]
    assert {lane.id: tree(parted.job.folder(lane)) for lane in lanes} == before, "it only looks"
    for lane, its in zip(lanes, found, strict=True):
        assert (its.rows, its.rows - its.foreign_rows) == (80, owned(lane, 4))
    assert sum(its.foreign_rows for its in found) == 80
    assert sum(its.foreign_bytes for its in found) == alone.bytes

    def crash(step: str, lane: str, batch: int) -> None:
        if step == crash_points.REWRITTEN and lane == lanes[1].id:
            raise Crash

    with crash_points.watched(crash), pytest.raises(Crash):
        compact.compacted(store, spark, site.lane_folders.root, lanes)
    again = stopped_job.lanes(store, "j")
    assert [lane.folder_epoch for lane in again] == [lane.folder_epoch for lane in lanes]
    assert {lane.id: tree(parted.job.folder(lane)) for lane in again} == before

    done = compact.compacted(store, spark, site.lane_folders.root, again)
    told = [(each.rows, each.bytes, each.rows_now, each.bytes_now) for each in done]
    assert told == [(h.rows, h.bytes, h.rows - h.foreign_rows, h.bytes - h.foreign_bytes) for h in found]
    now = stopped_job.lanes(store, "j")
    assert all(new.folder_epoch > old.folder_epoch for new, old in zip(now, lanes, strict=True))
    assert not any(parted.job.folder(lane).exists() for lane in lanes)
    assert [event.what.split()[-1] for event in store.events("j", 2)] == ["folder", "folder"]
    assert compact.compacted(store, spark, site.lane_folders.root, now) == []

    parted.job.lanes = [msgspec.structs.replace(lane, deployment=0) for lane in now]
    parted.job.epoch = 100
    parted.put(40)
    check(parted)


def second(n: int) -> dict[str, Any]:
    """A record a second."""
    return {"n": n, "at": (AT + timedelta(seconds=n)).isoformat()}


@pytest.mark.long
def test_a_join_keeps_the_rows_of_both_sides_that_are_its_own(spark: SparkSession, site: Site) -> None:
    job = Job("j")
    side: dict[str, Any] = {"key": "k string", "schema": "n int, at timestamp", "event_time": "at"}
    left, right = (job.read(stream, watermark="1 minute", **side) for stream in ("a", "b"))
    left.join(right, within="45 seconds", prefix="b_").write("pairs")
    parted = Parted(site, job, second, inputs=("a", "b"))
    parted.put(40)
    parted.scale(4, 2)
    parted.put(20)
    store = parted.store()
    lanes = stopped_job.lanes(store, "j")
    found = [size_of(spark, parted, lane) for lane in lanes]
    assert sum(each.foreign_rows for each in found) >= 2 * 2 * 2 * 40, "a row and a number for each, on both sides"
    done = compact.compacted(store, spark, site.lane_folders.root, lanes)
    assert [each.rows_now for each in done] == [each.rows - each.foreign_rows for each in found]
    parted.job.lanes = [msgspec.structs.replace(lane, deployment=0) for lane in stopped_job.lanes(store, "j")]
    parted.job.epoch = 100
    parted.put(60)
    keys = [KEYS[n * 7 % 40] for n in range(120)]
    pairs = [(n, m) for n in range(120) for m in range(120) if keys[n] == keys[m] and abs(n - m) <= 45]
    came = Counter((value["n"], value["b_n"]) for value in site.values("pairs"))
    assert came == Counter(dict.fromkeys(pairs, 2))


def size_of(spark: SparkSession, parted: Parted, lane: Lane) -> StateSize:
    folder = parted.job.folder(lane)
    return state.size_of(spark, lane, folder.uri, folder.committed(), keys=1)


def check(parted: Parted) -> None:
    """Every count of every key came out in both partitions, up to how often the key was put."""
    often = Counter(KEYS[n * 7 % 40] for n in range(parted.read))
    found: dict[str, list[int]] = defaultdict(list)
    for value in parted.site.values("counts"):
        found[value["k"]].append(value["n"])
    for key, times in often.items():
        assert Counter(found[key])[times] == 2, (key, found[key])
        assert max(found[key]) == times


@pytest.mark.long
def test_a_folder_that_is_not_at_rest_is_refused(spark: SparkSession, site: Site) -> None:
    parted = Parted(site)
    parted.put(10)
    (lane,) = parted.job.lanes
    folder = parted.job.folder(lane)
    last = folder.committed()
    folder.plan(folder.entry(last))
    with pytest.raises(StateError, match=f"has started batch {last + 1}, and hasn't finished it"):
        compaction.look(spark, lane, folder.uri, 1)
    with pytest.raises(StateError, match="is gone"):
        compaction.look(spark, lane, f"{folder.uri}9", 1)


@pytest.mark.long
def test_what_is_written_wrong_is_not_taken(spark: SparkSession, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    parted = Parted(site)
    parted.put(10)
    (lane,) = parted.job.lanes
    found = compaction.look(spark, lane, parted.job.folder(lane).uri, 1)
    wrong = msgspec.structs.replace(lane, numbers=dict.fromkeys(lane.numbers, 7))
    claimed = StateSize(found.size.rows, found.size.bytes, found.size.rows - 1, found.size.bytes)
    target = f"{site.lane_folders.root}/j/{lane.id}/9"
    with pytest.raises(StateError, match="was not compacted correctly"):
        compaction.rewrite(spark, compaction.StoredState(wrong, found.folder, found.batch, 1, claimed), target)
    assert not parted.job.folder(msgspec.structs.replace(lane, folder_epoch=9)).exists()
    with pytest.raises(ConflictError):
        compaction.rewrite(spark, found, found.folder.uri)
