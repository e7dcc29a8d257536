"""A lane that is to end breaks a long batch off: nobody has seen anything of it, and whoever follows does it again."""

from __future__ import annotations

import json
import math
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pytest
from pyspark.sql import DataFrame

from anabranch import Job, Processor, Timers, ValueState, tumbling
from anabranch.config import OutputSettings, StreamSettings
from anabranch.container.checkpoint.lane_folders import LaneFolders
from anabranch.container.lane.runner import LaneRunner
from anabranch.container.retries import Standstill
from anabranch.model.lane import Position
from anabranch.model.ssp import parsed
from tests.integration.breaking_off import COUNT, SOON, Running, Slow, follower
from tests.integration.harness import PATIENCE, KafkaSite, Site

START = datetime(2026, 1, 1, tzinfo=UTC)
ROW = "n int, slow string"


def _site(request: pytest.FixtureRequest) -> Site:
    found = request.getfixturevalue("site" if request.param == "embedded" else "kafka")
    assert isinstance(found, Site)
    return found


@pytest.fixture(params=["embedded", pytest.param("kafka", marks=pytest.mark.long)])
def any_site(request: pytest.FixtureRequest) -> Site:
    """A site of either system."""
    return _site(request)


@pytest.fixture(params=["embedded", pytest.param("kafka", marks=pytest.mark.long)])
def quick_site(request: pytest.FixtureRequest) -> Site:
    """The same, in the suite of the system that is quicker."""
    return _site(request)


def slowly(message: dict[str, Any]) -> dict[str, Any]:
    if Path(message["slow"]).exists():
        time.sleep(0.05)
    return message


class Counted(Processor):
    """Numbers the messages of each key."""

    count = ValueState("long")

    def on_message(self, message: dict[str, Any], timers: Timers) -> Iterator[dict[str, Any]]:
        self.count.set((self.count.get() or 0) + 1)
        yield {"k": message["k"], "n": self.count.get() - 1}


class SlowlyCounted(Counted):
    """The same, slowly for one of two keys."""

    def on_message(self, message: dict[str, Any], timers: Timers) -> Iterator[dict[str, Any]]:
        if message["k"] == "k0":
            slowly(message)
        return super().on_message(message, timers)


def mapped(inputs: str, outputs: str) -> Job:
    job = Job(f"j-{inputs}")
    job.read(inputs, key="k string", schema="n int, slow string").map(
        slowly, schema="k string, n int, slow string"
    ).write(outputs)
    return job


@pytest.mark.long
def test_a_stop_leaves_a_long_batch_planned_and_it_is_run_as_it_was(quick_site: Site) -> None:
    slow = Slow(quick_site, mapped)
    slow.put(COUNT)
    (lane,) = slow.run.lanes
    running = Running(slow.run, lane)
    running.until_in_batch(0)
    running.runner.stop()
    lane = running.ended(SOON)
    assert (running.report.attempt.pending, running.report.progress.batch) == (True, -1)
    assert slow.numbers() == {}
    slow.hurry()
    slow.put(10, first=COUNT)
    slow.run.lanes = [lane]
    slow.run.ran()
    assert slow.numbers() == {b"k0": [*range(COUNT + 10)], b"k1": [*range(COUNT + 10)]}


@pytest.mark.parametrize("before", [pytest.param(0, marks=pytest.mark.long), 10])
@pytest.mark.long
def test_a_closing_lane_takes_its_batch_back_and_others_read_the_records_again(any_site: Site, before: int) -> None:
    slow = Slow(any_site, mapped)
    running = slow.running_behind(before)
    running.until_in_batch(1 if before else 0)
    lane = running.closed()
    folder = slow.run.folder(lane)
    last = 0 if before else -1
    assert (running.report.attempt.pending, running.report.progress.batch, folder.planned()) == (False, last, last)
    assert {each.offset for each in lane.final} <= {before, before + 1}  # Kafka counts the ends of transactions
    assert sum(map(len, slow.numbers().values())) == 2 * before
    slow.hurry()
    slow.run.lanes = [follower(lane)]
    slow.run.ran()
    assert slow.numbers() == {b"k0": [*range(COUNT + before)], b"k1": [*range(COUNT + before)]}


def processed(inputs: str, outputs: str) -> Job:
    job = Job(f"j-{inputs}")
    read = job.read(inputs, key="k string", schema=ROW).map(slowly, schema=f"k string, {ROW}", name="slowly")
    read.process(Counted(), schema="k string, n long", name="counted").write(outputs)
    return job


@pytest.mark.parametrize("before", [pytest.param(0, marks=pytest.mark.long), 10])
def test_state_of_a_batch_that_was_taken_back_reaches_nobody(quick_site: Site, before: int) -> None:
    slow = Slow(quick_site, processed)
    running = slow.running_behind(before)
    running.until_in_batch(1 if before else 0)
    lane = running.closed()
    assert running.report.progress.batch == (0 if before else -1)
    slow.hurry()
    slow.run.lanes = [follower(lane)]
    slow.run.ran()
    assert slow.numbers() == {b"k0": [*range(COUNT + before)], b"k1": [*range(COUNT + before)]}


def slowly_processed(inputs: str, outputs: str) -> Job:
    job = Job(f"j-{inputs}")
    read = job.read(inputs, key="k string", schema=ROW)
    read.process(SlowlyCounted(), schema="k string, n long", name="counted").write(outputs)
    return job


@pytest.mark.long
@pytest.mark.parametrize("before", [0, 10])
def test_state_that_a_task_has_committed_before_is_not_gone_on_from(site: Site, before: int) -> None:
    """Of two keys in state partitions of their own, one is through."""
    slow = Slow(site, slowly_processed, state_partitions=8)
    running = slow.running_behind(before)
    number = 1 if before else 0
    running.until_in_batch(number)
    folder = Path(
        f"{site.lane_folders.root}/{running.runner.lane.job}/{running.runner.lane.id}/{running.report.attempt.folder_epoch}"
    )
    running.until("state", lambda: _has_state_of(folder, number))
    lane = running.closed()
    assert (running.report.progress.batch, _has_state_of(folder, number)) == (number - 1, True)
    slow.hurry()
    slow.run.lanes = [follower(lane)]
    slow.run.ran()
    assert slow.numbers() == {b"k0": [*range(COUNT + before)], b"k1": [*range(COUNT + before)]}


def _has_state_of(folder: Path, batch: int) -> bool:
    return any(re.fullmatch(rf"{batch + 1}(_.*)?\.(changelog|delta|zip)", f.name) for f in folder.glob("state/**/*"))


def windowed(inputs: str, outputs: str) -> Job:
    job = Job(f"j-{inputs}")
    read = job.read(inputs, key="k string", schema=f"{ROW}, at timestamp", event_time="at", watermark="0 seconds")
    mapped = read.map(slowly, schema=f"k string, {ROW}, at timestamp", name="slowly")
    mapped.window(tumbling("1 minute")).agg(n="count(*)", name="minutes").write(outputs)
    return job


@pytest.mark.long
@pytest.mark.parametrize("before", [0, 120])
def test_windows_are_exact_and_time_goes_on_where_it_was(quick_site: Site, before: int) -> None:
    def put(first: int, count: int) -> None:
        for p in range(2):
            times = [START + timedelta(seconds=n) for n in range(first, first + count)]
            rows = [{"n": 0, "slow": str(slow.file), "at": at.isoformat()} for at in times]
            slow.site.put(slow.inputs, p, rows, [f"k{p}".encode()] * count)

    slow = Slow(quick_site, windowed)
    (lane,) = slow.run.lanes
    if before:
        slow.hurry()
        put(0, before)
        slow.run.ran()
        (lane,) = slow.run.lanes
        slow.file.touch()
    put(before, COUNT)
    running = Running(slow.run, lane)
    running.until("a batch", lambda: _is_long(running))
    lane = running.closed()
    slow.hurry()
    slow.run.lanes = [follower(lane)]
    put(before + COUNT, 3600)
    slow.run.ran()
    found = Counter((v["k"], v["window_start"], v["n"]) for v in slow.site.values(slow.outputs))
    starts = [START + timedelta(minutes=n) for n in range((before + COUNT + 3600) // 60 - 1)]
    assert {(k, datetime.fromisoformat(start), n) for k, start, n in found} == {
        (f"k{p}", start, 60) for p in range(2) for start in starts
    }
    assert set(found.values()) == {1}


def _is_long(running: Running) -> bool:
    query = running.runner.query
    return query is not None and query.writing.is_set() and query.gate.seconds > 2


def refused(message: dict[str, Any]) -> dict[str, Any]:
    if message["n"] % 5 == 2:
        raise ValueError("not this one")
    return slowly(message)


def refusing(inputs: str, outputs: str) -> Job:
    job = Job(f"j-{inputs}")
    job.read(inputs, key="k string", schema=ROW).map(refused, schema=f"k string, {ROW}", name="picky").write(outputs)
    return job


@pytest.mark.long
def test_dead_letters_are_written_once(quick_site: Site) -> None:
    slow = Slow(quick_site, refusing, on_error="dead-letter")
    slow.put(COUNT)
    (lane,) = slow.run.lanes
    running = Running(slow.run, lane)
    running.until_in_batch(0)
    lane = running.closed()
    slow.hurry()
    slow.run.lanes = [follower(lane)]
    slow.run.ran()
    kept = [n for n in range(COUNT) if n % 5 != 2]
    assert slow.numbers() == {b"k0": kept, b"k1": kept}
    (letters,) = lane.dead_letters.values()
    told = Counter(json.loads(each["value"])["n"] for each in slow.site.all_records(letters))
    assert told == dict.fromkeys((n for n in range(COUNT) if n % 5 == 2), 2)


@pytest.mark.long
def test_a_batch_that_is_seen_in_part_is_awaited_and_told(kafka: KafkaSite) -> None:
    """Of two slots, one has committed; the other needs some seconds yet."""
    slow = Slow(kafka, mapped)
    rows = [{"n": n, "slow": str(slow.file)} for n in range(200)]
    kafka.put(slow.inputs, 0, rows, [b"k0"] * 200)
    kafka.put(slow.inputs, 1, [{"n": 0, "slow": "none"}], [b"k1"])
    (lane,) = slow.run.lanes
    running = Running(slow.run, lane)
    running.until("what is seen", lambda: b"k1" in slow.numbers())
    running.runner.close()
    running.until("why", lambda: running.report.attempt.waits.startswith("batch 0 is seen in part: "))
    lane = running.ended()
    assert (running.report.attempt.waits, running.report.progress.batch) == ("", 0)
    assert slow.numbers() == {b"k0": [*range(200)], b"k1": [0]}


@pytest.mark.long
def test_a_batch_that_is_found_to_be_seen_after_it_was_broken_off_is_finished(
    kafka: KafkaSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LaneFolders, "seen", lambda *_: -1)
    slow = Slow(kafka, mapped)
    rows = [{"n": n, "slow": str(slow.file)} for n in range(COUNT)]
    kafka.put(slow.inputs, 0, rows, [b"k0"] * COUNT)
    kafka.put(slow.inputs, 1, [{"n": 0, "slow": "none"}], [b"k1"])
    (lane,) = slow.run.lanes
    running = Running(slow.run, lane)
    running.until("what is seen", lambda: b"k1" in slow.numbers())
    running.runner.close()
    running.until(
        "why", lambda: running.report.attempt.waits.startswith("batch 0 was started before, and is being finished")
    )
    slow.hurry()
    running.ended()
    assert (running.report.progress.batch, running.report.attempt.pending) == (0, False)
    assert slow.numbers() == {b"k0": [*range(COUNT)], b"k1": [0]}


CALLED: list[int] = []
GO_ON = threading.Event()


def called(df: DataFrame, lane: str, batch: int, epoch: int) -> None:
    CALLED.append(df.count())
    GO_ON.wait(PATIENCE)


def calling(inputs: str, outputs: str) -> Job:
    job = Job(f"j-{inputs}")
    read = job.read(inputs, key="k string", schema=ROW).map(slowly, schema=f"k string, {ROW}", name="slowly")
    read.foreach_batch(called, name="calls")
    return job


@pytest.mark.long
def test_a_batch_that_was_given_to_a_function_is_awaited_and_one_that_was_not_is_broken_off(site: Site) -> None:
    CALLED.clear()
    GO_ON.clear()
    slow = Slow(site, calling)
    slow.put(COUNT)
    (lane,) = slow.run.lanes
    running = Running(slow.run, lane)
    running.until_in_batch(0)
    lane = running.closed()
    assert (running.report.progress.batch, CALLED) == (-1, [])
    slow.hurry()
    running = Running(slow.run, follower(lane))
    slow.run.lanes = [running.runner.lane]
    running.until("a call", lambda: bool(CALLED))
    running.runner.close()
    running.until("why", lambda: "has been given to" in running.report.attempt.waits)
    GO_ON.set()
    running.ended()
    assert (running.report.progress.batch, CALLED) == (0, [2 * COUNT])


@pytest.mark.long
def test_what_is_written_at_least_once_is_awaited_and_told_unless_duplicates_are_accepted(kafka: KafkaSite) -> None:
    name = f"{kafka.name}-out"
    settings = kafka.settings().model_copy(update={"streams": {name: StreamSettings(delivery="at-least-once")}})
    slow = Slow(kafka, mapped, settings=settings)
    slow.put(COUNT)
    (lane,) = slow.run.lanes
    running = Running(slow.run, lane)
    running.until_in_batch(0)
    running.runner.close()
    running.until("why", lambda: f"batch 0 is being written at least once to {name}: " in running.report.attempt.waits)
    assert not running.runner.join(2)
    running.runner.close(now=True)
    lane = running.ended(SOON)
    assert running.report.progress.batch == -1
    slow.hurry()
    slow.run.lanes = [follower(lane)]
    slow.run.ran()
    for key, numbers in slow.numbers().items():
        assert set(numbers) == {*range(COUNT)}, key


@pytest.mark.long
def test_a_table_has_each_row_once(site: Site) -> None:
    output = OutputSettings(to="parquet", path=str(site.root / "table"))
    slow = Slow(site, mapped, settings=site.settings().model_copy(update={"outputs": {"out": output}}))
    slow.put(COUNT)
    (lane,) = slow.run.lanes
    running = Running(slow.run, lane)
    running.until_in_batch(0)
    lane = running.closed()
    assert running.report.progress.batch == -1
    slow.hurry()
    slow.run.lanes = [follower(lane)]
    slow.run.ran()
    found = duckdb.sql(f"select k, n from read_parquet('{site.root / 'table'}/*.parquet')").fetchall()
    assert sorted(found) == [(f"k{p}", n) for p in range(2) for n in range(COUNT)]


@pytest.mark.long
def test_what_a_former_process_has_left_is_taken_back_by_whoever_closes_the_lane(any_site: Site) -> None:
    """It was stopped in its batch, and is to close when it is started again."""
    slow = Slow(any_site, mapped)
    slow.put(COUNT)
    (lane,) = slow.run.lanes
    running = Running(slow.run, lane)
    running.until_in_batch(0)
    running.runner.stop()
    slow.run.lanes = [running.ended(SOON)]
    assert running.report.attempt.pending
    runner = LaneRunner(
        slow.run.lane_folders,
        slow.run.lanes[0],
        slow.run.epoch,
        slow.run.building(slow.run.lanes[0], {}),
        dict,
        None,
        Standstill(math.inf),
    )
    runner.close()
    runner.start()
    runner.acknowledge(upstream_ended=False)
    assert runner.join(SOON), runner.report
    assert (runner.report.phase, runner.report.progress.batch, runner.report.attempt.pending) == ("ended", -1, False)
    assert set(runner.report.progress.positions.values()) == {0}
    slow.run.epoch += 1
    slow.hurry()
    final = tuple(Position(ssp=ssp, offset=offset) for ssp, offset in parsed(runner.report.progress.positions).items())
    closed = msgspec.structs.replace(slow.run.lanes[0], last_batch=-1, final=final)
    slow.run.lanes = [follower(closed)]
    slow.run.ran()
    assert slow.numbers() == {b"k0": [*range(COUNT)], b"k1": [*range(COUNT)]}
