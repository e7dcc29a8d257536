"""A batch tells how far it is while it runs: rows, speed, time left, and where the time goes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from anabranch import Job, Processor, Timers
from anabranch.protocol.lane_report import BatchProgress, LaneReport
from tests.integration.harness import Deployed, KafkaSite, Site

SECONDS = 12.0
"""How long functions work on the batch that is watched."""


def slowly(seconds: float) -> Callable[[Any], Any]:
    def work(row: Any) -> Any:
        time.sleep(seconds)
        return row

    return work


def awaiting(seconds: float) -> Callable[[Any], Any]:
    async def work(row: Any) -> Any:
        await asyncio.sleep(seconds)
        return row

    return work


def filled(site: Site, rows: int, partitions: int = 2) -> str:
    name = site.create("in", partitions) if isinstance(site, KafkaSite) else "in"
    if not isinstance(site, KafkaSite):
        site.system.create("in", partitions)
    for partition in range(partitions):
        mine = [{"k": f"k{n % 40}", "n": n} for n in range(rows // partitions)]
        site.put(name, partition, mine, [row["k"].encode() for row in mine])
    return name


def out(site: Site) -> str:
    return f"{site.name}-out" if isinstance(site, KafkaSite) else "out"


class Watched:
    """The reports of one lane, as they come, until its first batch is committed, or the one ``after`` another."""

    def __init__(self, deployed: Deployed, patience: float = 120.0, after: int = -1) -> None:
        self.looks: list[tuple[float, LaneReport]] = []
        begun = time.monotonic()
        with deployed.running() as reports:
            while time.monotonic() < begun + patience:
                (report,) = reports().values()
                assert report.phase != "failed", report.error
                self.looks.append((time.monotonic(), report))
                if report.progress.batch > after:
                    return
                time.sleep(0.1)
        raise AssertionError(f"no batch was committed: {self.looks[-1]}")

    @property
    def progresses(self) -> list[tuple[float, BatchProgress, LaneReport]]:
        return [(at, now, each) for at, each in self.looks if (now := each.progress.batch_progress) is not None]

    @property
    def working(self) -> list[tuple[float, BatchProgress, LaneReport]]:
        return [each for each in self.progresses if 0 < each[1].done < each[1].planned]


def changes(watched: Watched, number: int = 0) -> Iterator[float]:
    """The seconds between two figures of the rows that are done, in a batch."""
    working = [each for each in watched.working if each[1].number == number]
    last_at, last_done = working[0][0], working[0][1].done
    for at, progress, _ in working:
        if progress.done != last_done:
            yield at - last_at
            last_at, last_done = at, progress.done


def check(watched: Watched, rows: int, phase: str = "functions") -> None:
    working = watched.working
    assert working, watched.progresses[-3:]
    assert {each.planned for _, each, _ in watched.progresses} == {rows}
    done = [each.done for _, each, _ in working]
    assert done == sorted(done)
    assert max(changes(watched)) < 2.0, [(round(at - working[0][0], 1), each.done) for at, each, _ in working]
    ended = watched.looks[-1][0]
    begun = watched.progresses[0][0] - watched.progresses[0][1].seconds
    middle = [each for each in working if 0.3 < (each[0] - begun) / (ended - begun) < 0.7]
    for at, each, _ in middle:
        assert each.left is not None
        assert abs(each.left - (ended - at)) < 0.3 * (ended - begun), (each, ended - at)
        assert sum(each.spent.values()) == pytest.approx(each.seconds, rel=0.05)
        assert each.phase == phase
    report = middle[-1][2]
    assert report.load.busy > 0.9
    assert report.load.rows_per_second > 0
    last = watched.looks[-1][1]
    assert sum(last.load.spent.values()) == pytest.approx(last.load.seconds, rel=0.2)


@pytest.mark.long
def test_of_a_function(site: Site) -> None:
    rows = 6000
    filled(site, rows)
    job = Job("slow")
    job.read("in", schema="k string, n long").map(slowly(2 * SECONDS / rows), schema="k string, n long").write("out")
    watched = Watched(site.deployed(job, max_rows_per_batch=rows))
    check(watched, rows)
    (_, _, report) = watched.working[-1]
    assert report.load.working > 0.6, report
    assert report.progress.batch_progress is not None
    assert report.progress.batch_progress.buckets.keys() == {"embedded/in/0", "embedded/in/1"}
    load = watched.looks[-1][1].load
    assert load.batch_times is not None
    assert load.batch_times.per_record * rows == pytest.approx(load.spent["functions"], rel=0.01)
    assert load.batch_times.fixed == pytest.approx(load.seconds - load.spent["functions"], abs=0.01)


@pytest.mark.long
def test_of_a_function_that_awaits_in_many_buckets(site: Site) -> None:
    rows, factor = 8000, 8
    filled(site, rows)
    job = Job("awaits")
    work = awaiting(SECONDS / (rows / (2 * factor)))
    job.read("in", schema="k string, n long").map(work, schema="k string, n long").write("out")
    watched = Watched(site.deployed(job, max_rows_per_batch=rows, factor=factor))
    check(watched, rows)
    (_, progress, _) = watched.working[-1]
    assert all("#" in name for name in progress.buckets)


@pytest.mark.long
def test_behind_a_filter_a_first_batch_knows_how_much_is_to_come(site: Site) -> None:
    rows = 12000
    filled(site, rows)
    job = Job("filtered")
    some = job.read("in", schema="k string, n long").where("n % 4 = 0")
    some.map(slowly(8 * SECONDS / rows), schema="k string, n long").write("out")
    check(Watched(site.deployed(job, max_rows_per_batch=rows)), rows)


@pytest.mark.long
def test_of_a_topic(kafka: KafkaSite) -> None:
    rows = 6000
    name = filled(kafka, rows)
    job = Job(f"{kafka.name}-slow")
    read = job.read(name, schema="k string, n long")
    read.map(slowly(2 * SECONDS / rows), schema="k string, n long").write(out(kafka))
    check(Watched(kafka.deployed(job, max_rows_per_batch=rows)), rows)


@pytest.mark.long
def test_of_a_topic_and_a_function_that_awaits(kafka: KafkaSite) -> None:
    rows, factor = 8000, 8
    name = filled(kafka, rows)
    job = Job(f"{kafka.name}-awaits")
    work = awaiting(SECONDS / (rows / (2 * factor)))
    job.read(name, schema="k string, n long").map(work, schema="k string, n long").write(out(kafka))
    check(Watched(kafka.deployed(job, max_rows_per_batch=rows, factor=factor)), rows)


DEAR = "sha2(" * 24 + "cast(n as string)" + ", 512)" * 24


@pytest.mark.long
def test_of_sql_alone(kafka: KafkaSite) -> None:
    """On a topic, where no Python worker reads: what is published has been read. It comes in Arrow batches of 10,000
    rows, and how long one takes is a matter of the machine; that figures come isn't.
    """
    rows = 150_000
    name = filled(kafka, rows)
    job = Job(f"{kafka.name}-sql")
    job.read(name, schema="n long", key="k string").with_columns(dear=DEAR).write(out(kafka))
    watched = Watched(kafka.deployed(job, max_rows_per_batch=rows))
    working = watched.working
    done = [each.done for _, each, _ in working]
    assert done == sorted(done)
    assert len(set(done)) > 2
    assert {each.planned for _, each, _ in watched.progresses} == {rows}
    assert max(later - earlier for earlier, later in pairwise(sorted({0, *done}))) <= 2 * 2 * 10_000
    figures = [(at, each.seconds) for at, each, _ in watched.progresses]
    news = [at for (_, before), (at, after) in pairwise(figures) if before != after]
    assert max(later - earlier for earlier, later in pairwise(news)) < 2.0
    assert {each.phase for _, each, _ in working} <= {"reading", "publishing"}
    last = watched.looks[-1][1]
    assert sum(last.load.spent.values()) == pytest.approx(last.load.seconds, rel=0.2)


class Slow(Processor):
    def on_message(self, message: Any, timers: Timers) -> Any:
        time.sleep(SECONDS / 3000)
        yield {"k": message["k"], "n": message["n"]}


@pytest.mark.long
def test_of_a_processor(site: Site) -> None:
    """The second batch knows how many rows come to it."""
    rows = 6000
    filled(site, 2 * rows)
    job = Job("process")
    read = job.read("in", schema="n long", key="k string")
    read.process(Slow(), schema="k string, n long").write("out")
    deployed = site.deployed(job, max_rows_per_batch=rows)
    watched = Watched(deployed, after=0)
    working = [each for each in watched.working if each[1].number == 1]
    done = [each.done for _, each, _ in working]
    assert done == sorted(done)
    assert max(changes(watched, number=1)) < 2.0
    assert {each.phase for _, each, _ in working[len(working) // 3 :]} <= {"functions", "state"}
    (at, middle, _) = working[len(working) // 2]
    assert middle.left is not None
    ended = watched.looks[-1][0]
    assert abs(middle.left - (ended - at)) < 0.3 * (ended - working[0][0])


@pytest.mark.long
def test_two_lanes_in_one_process_are_told_apart(site: Site) -> None:
    rows = 3000
    filled(site, rows, partitions=1)
    site.system.create("other", 1)
    site.put("other", 0, [{"k": "k", "n": n} for n in range(rows // 2)])
    first, second = Job("first"), Job("second")
    for job, stream in ((first, "in"), (second, "other")):
        read = job.read(stream, schema="k string, n long")
        read.map(slowly(0.004), schema="k string, n long").write(f"{job.name}-out")
    one, two = (site.deployed(job, max_rows_per_batch=rows) for job in (first, second))
    two.lanes[0] = msgspec.structs.replace(two.lanes[0], id="0-00000001")
    seen: dict[str, list[BatchProgress]] = {"one": [], "two": []}
    end = time.monotonic() + 60
    with one.running() as of_one, two.running() as of_two:
        while time.monotonic() < end and any(r.progress.batch < 0 for of in (of_one, of_two) for r in of().values()):
            for name, of in (("one", of_one), ("two", of_two)):
                seen[name] += [now for r in of().values() if (now := r.progress.batch_progress) is not None]
            time.sleep(0.1)
    assert {each.planned for each in seen["one"]} == {rows}
    assert {each.planned for each in seen["two"]} == {rows // 2}
    assert {name for each in seen["one"] for name in each.buckets} == {"embedded/in/0"}
    assert {name for each in seen["two"] for name in each.buckets} == {"embedded/other/0"}
