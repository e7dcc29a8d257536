"""Batches sized by time, on both systems: they begin small, grow, and are small again no longer than they must be."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from anabranch import Job
from anabranch.config import Settings
from anabranch.container import batch_size_store, too_long_batches
from anabranch.container.checkpoint.folder import Folder
from tests.integration.harness import Deployed, KafkaSite, Site

TARGET = 2.0
"""Seconds, on a machine where others work, too."""
EACH = 0.002
ROWS = 4000
"""Of each of two partitions."""
OUTLASTS = 2.0
"""Batches of tens of records, on a machine where others work, don't say exactly how long one of thousands takes. Of the
8,000, the first batch to be sized by what one learned has at most 4,000."""


@pytest.fixture(params=["site", pytest.param("kafka", marks=pytest.mark.long)])
def place(request: pytest.FixtureRequest) -> Site:
    """On each of the systems."""
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Site)
    return found


@pytest.fixture(params=["site", pytest.param("kafka", marks=pytest.mark.long)])
def quick_place(request: pytest.FixtureRequest) -> Site:
    """The same, in the suite on the one that is quicker."""
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Site)
    return found


def input_of(place: Site, name: str, partitions: int, rows: int) -> str:
    """A stream with so many records in each partition, of ten keys."""
    if isinstance(place, KafkaSite):
        stream = place.create(name, partitions)
    else:
        stream = name
        place.log.create(name, partitions)
    for partition in range(partitions):
        keys: list[bytes | None] = [b"%d" % (n % 10) for n in range(rows)]
        place.put(stream, partition, [{"n": n} for n in range(rows)], keys)
    return stream


def name_of(place: Site, name: str) -> str:
    return f"{place.name}-{name}" if isinstance(place, KafkaSite) else name


def waiting(place: Site, source: str, wait: Callable[[int], float]) -> Job:
    """Each record takes so long, by its number."""

    def work(row: dict[str, Any]) -> dict[str, Any]:
        time.sleep(wait(row["n"]))
        return row

    job = Job(name_of(place, "j"))
    job.read(source, key="k string", schema="n int").map(work).write(name_of(place, "out"))
    return job


def sizes(run: Deployed) -> list[int]:
    """The records of each batch of the only lane, in order."""
    (lane,) = run.lanes
    folder = run.folder(lane)
    held = [folder.planned_positions(n) for n in range(folder.planned() + 1)]
    ends = [sum(at for positions in each.values() for at in positions.values()) for each in held]
    return [end - begin for begin, end in pairwise([0, *ends])]


@pytest.mark.long
def test_batches_begin_small_and_grow_until_they_take_their_time_and_the_next_run_knows_that(place: Site) -> None:
    source = input_of(place, "in", 2, ROWS)
    run = place.deployed(waiting(place, source, lambda _: EACH), target_batch_seconds=TARGET)
    (report,) = run.ran().values()
    first = sizes(run)
    assert sum(first) == 2 * ROWS
    assert first[0] == 50
    assert max(first) >= 500, first  # 2 partitions, 2 ms: 1,000 rows a second, less what a batch takes by itself
    assert max(first) <= OUTLASTS * TARGET * 2 / EACH, first
    assert len(first) <= ROWS // 100, first  # a quarter of what it would take if they stayed as small as the first
    assert report.load.limit >= 500
    assert len(place.values(name_of(place, "out"))) == 2 * ROWS

    input_again = [{"n": n} for n in range(1000)]
    place.put(source, 0, input_again, [b"k"] * 1000)
    run.ran()
    again = sizes(run)[len(first) :]
    assert sum(again) == 1000
    assert again[0] >= 100, again


@pytest.mark.long
def test_one_slow_batch_leaves_no_trace(quick_place: Site) -> None:
    """One record takes as long as an outage; those behind it don't."""
    source = input_of(quick_place, "in", 1, ROWS)
    slow = ROWS // 2
    job = waiting(quick_place, source, lambda n: 20 * TARGET if n == slow else EACH)
    run = quick_place.deployed(job, target_batch_seconds=TARGET)
    run.ran()
    found = sizes(run)
    ends = [sum(found[: n + 1]) for n in range(len(found))]
    hit = next(n for n, end in enumerate(ends) if end > slow)
    before = max(found[:hit])
    assert found[hit + 1] <= before / 2, found
    assert max(found[hit + 2 : hit + 5]) >= before / 2, found
    assert sum(found) == ROWS


@pytest.mark.long
def test_sources_share_what_a_batch_may_have_and_the_small_one_is_not_left_behind(quick_place: Site) -> None:
    large, small = input_of(quick_place, "large", 1, ROWS), input_of(quick_place, "small", 1, 60)

    def work(row: dict[str, Any]) -> dict[str, Any]:
        time.sleep(EACH)
        return row

    job = Job(name_of(quick_place, "j"))
    both = [job.read(each, key="k string", schema="n int") for each in (large, small)]
    both[0].merge(both[1]).map(work).write(name_of(quick_place, "out"))
    run = quick_place.deployed(job, target_batch_seconds=TARGET)
    run.ran()
    found = sizes(run)
    assert sum(found) == ROWS + 60
    assert found[0] <= 52, found
    assert max(found) <= 1500, found
    (lane,) = run.lanes
    folder = run.folder(lane)
    taken = [folder.planned_positions(n)[small][0] for n in range(4)]
    assert 0 < taken[0] <= 26
    assert taken[-1] == 60, taken


@pytest.mark.long
def test_after_a_batch_that_took_too_long_for_a_transaction_they_are_as_large_again(
    kafka: KafkaSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is foretold to, or that has failed for it."""

    def noted(folder: Folder, starting: Mapping[str, Mapping[int, int]], most: int) -> int:
        had = shrink(folder, starting, most)
        shrunk.append((had, most))
        return had

    shrink, shrunk = too_long_batches.shrink, list[tuple[int, int]]()
    monkeypatch.setattr(too_long_batches, "shrink", noted)
    source = input_of(kafka, "in", 1, ROWS)
    slow, once = ROWS // 4, kafka.root / "once"

    def wait(n: int) -> float:
        if n != slow or once.exists():
            return EACH
        once.touch()
        return 15.0

    job = waiting(kafka, source, wait)
    kafka.spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "10")  # it is open from the first ones on
    try:
        run = kafka.deployed(job, bounded(kafka, "8 seconds"))
        run.ran()
    finally:
        kafka.spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    found = sizes(run)
    assert once.exists()
    assert sum(found) == ROWS
    had, most = shrunk[0]
    assert 1 <= most <= had / 4, shrunk
    assert max(found[n] for n in range(len(found)) if sum(found[:n]) > slow) >= had / 2, (found, shrunk)
    assert [value["n"] for value in kafka.values(name_of(kafka, "out"))] == [*range(ROWS)]


@pytest.fixture
def failed(monkeypatch: pytest.MonkeyPatch) -> list[BaseException]:
    """What batches fail for."""
    found = list[BaseException]()
    is_too_long = too_long_batches.is_too_long

    def noted(error: BaseException) -> bool:
        found.append(error)
        return is_too_long(error)

    monkeypatch.setattr(too_long_batches, "is_too_long", noted)
    return found


def bounded(kafka: KafkaSite, timeout: str) -> Settings:
    settings = kafka.settings(target_batch_seconds=TARGET)
    its = settings.systems.kafka.model_copy(update={"transaction_timeout": timeout})
    return settings.model_copy(update={"systems": settings.systems.model_copy(update={"kafka": its})})


@pytest.mark.long
def test_no_batch_fails_for_time_whatever_waits_and_though_no_speed_is_known(
    kafka: KafkaSite, failed: list[BaseException]
) -> None:
    source = input_of(kafka, "in", 1, 800)  # all of it takes 16 s
    run = kafka.deployed(waiting(kafka, source, lambda _: 0.02), bounded(kafka, "6 seconds"))
    run.ran()
    assert not failed
    assert sum(sizes(run)) == 800


@pytest.mark.long
def test_records_that_are_far_slower_than_those_before_are_taken_in_small_batches_before_one_fails(
    kafka: KafkaSite, failed: list[BaseException]
) -> None:
    source = input_of(kafka, "in", 1, ROWS)
    run = kafka.deployed(waiting(kafka, source, lambda n: 0.3 if n >= ROWS else 0.001), bounded(kafka, "20 seconds"))
    run.ran()
    first = len(sizes(run))
    slow = [*range(ROWS, ROWS + 120)]  # they take 36 s
    kafka.put(source, 0, [{"n": n} for n in slow], [b"k"] * len(slow))
    run.ran()
    found = sizes(run)[first:]
    assert not failed
    assert sum(found) == len(slow)
    assert max(found) <= len(slow) / 4, found
    assert [value["n"] for value in kafka.values(name_of(kafka, "out"))] == [*range(ROWS + len(slow))]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"1": {"rows": -1, "partitions": 1}}'])
def test_a_damaged_memory_is_as_if_it_were_not_there(text: str, site: Site) -> None:
    source = input_of(site, "in", 1, 10)
    run = site.deployed(waiting(site, source, lambda _: 0.0))
    (lane,) = run.lanes
    assert batch_size_store.remembered(site.lane_folders, lane, quick=True) == 0
    memory = batch_size_store.BatchSizeStore(site.lane_folders, lane)
    memory.note(5000, ends=True)
    assert batch_size_store.remembered(site.lane_folders, lane, quick=True) == 5000
    (file,) = (site.root / "lanes" / "j" / "speeds").iterdir()
    assert json.loads(file.read_text()) == {"1": {"rows": 5000, "partitions": 1}}
    file.write_text(text)
    assert batch_size_store.remembered(site.lane_folders, lane, quick=True) == 0
    memory.note(900, ends=True)
    assert batch_size_store.remembered(site.lane_folders, lane, quick=True) == 900


def test_a_size_that_is_not_written_yet_is_known_in_this_process(site: Site) -> None:
    source = input_of(site, "in", 1, 10)
    run = site.deployed(waiting(site, source, lambda _: 0.0))
    (lane,) = run.lanes
    following = msgspec.structs.replace(lane, factor=4)
    memory = batch_size_store.BatchSizeStore(site.lane_folders, lane)
    for rows in (50, 5000):
        memory.note(rows)
        assert batch_size_store.remembered(site.lane_folders, following, quick=False) == 2 * rows
    assert not (site.root / "lanes" / "j" / "speeds").exists()
    memory.note(700, ends=True)
    assert batch_size_store.remembered(site.lane_folders, following, quick=False) == 1400
    memory.note(7000)
    memory.note(710, ends=True)
    assert batch_size_store.remembered(site.lane_folders, following, quick=False) == 1400


def test_a_memory_that_cannot_be_kept_fails_nothing(site: Site) -> None:
    source = input_of(site, "in", 1, 10)
    run = site.deployed(waiting(site, source, lambda _: 0.0))
    (lane,) = run.lanes
    (site.root / "lanes" / "j").mkdir(parents=True)
    (site.root / "lanes" / "j" / "speeds").write_text("a file, where a folder should be")
    batch_size_store.BatchSizeStore(site.lane_folders, lane).note(5000, ends=True)
    assert batch_size_store.remembered(site.lane_folders, lane, quick=True) == 0
