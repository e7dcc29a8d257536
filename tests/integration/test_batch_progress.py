"""A batch tells how far it is while it runs: rows, speed, time left, and where the time goes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from anabranch import Job
from anabranch.messages import BatchProgress, LaneReport
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
    """The reports of one lane, as they come, until its first batch is committed."""

    def __init__(self, deployed: Deployed, patience: float = 120.0) -> None:
        self.looks: list[tuple[float, LaneReport]] = []
        begun = time.monotonic()
        with deployed.running() as reports:
            while time.monotonic() < begun + patience:
                (report,) = reports().values()
                assert report.phase != "failed", report.error
                self.looks.append((time.monotonic(), report))
                if report.batch >= 0:
                    return
                time.sleep(0.1)
        raise AssertionError(f"no batch was committed: {self.looks[-1]}")

    @property
    def progresses(self) -> list[tuple[float, BatchProgress, LaneReport]]:
        return [(at, each.batch_progress, each) for at, each in self.looks if each.batch_progress is not None]

    @property
    def working(self) -> list[tuple[float, BatchProgress, LaneReport]]:
        return [each for each in self.progresses if 0 < each[1].done < each[1].planned]


def changes(watched: Watched) -> Iterator[float]:
    """The seconds between two figures of the rows that are done."""
    last_at, last_done = watched.working[0][0], watched.working[0][1].done
    for at, progress, _ in watched.working:
        if progress.done != last_done:
            yield at - last_at
            last_at, last_done = at, progress.done


def check(watched: Watched, rows: int, phase: str = "functions") -> None:
    working = watched.working
    assert working, watched.progresses[-3:]
    assert {each.planned for _, each, _ in watched.progresses} == {rows}
    done = [each.done for _, each, _ in working]
    assert done == sorted(done)
    assert max(changes(watched)) < 2.0, sorted(changes(watched))[-5:]
    ended = watched.looks[-1][0]
    begun = watched.progresses[0][0] - watched.progresses[0][1].seconds
    middle = [each for each in working if 0.3 < (each[0] - begun) / (ended - begun) < 0.7]
    for at, each, _ in middle:
        assert each.left is not None
        assert abs(each.left - (ended - at)) < 0.3 * (ended - begun), (each, ended - at)
        assert sum(each.spent.values()) == pytest.approx(each.seconds, rel=0.05)
        assert each.phase == phase
    report = middle[-1][2]
    assert report.busy > 0.9
    assert report.rows_per_second > 0
    last = watched.looks[-1][1]
    assert sum(last.spent.values()) == pytest.approx(last.seconds, rel=0.2)


def test_of_a_function(site: Site) -> None:
    rows = 6000
    filled(site, rows)
    job = Job("slow")
    job.read("in", schema="k string, n long").map(slowly(2 * SECONDS / rows), schema="k string, n long").write("out")
    watched = Watched(site.deployed(job, max_rows_per_batch=rows))
    check(watched, rows)
    (_, _, report) = watched.working[-1]
    assert report.working > 0.6, report
    assert report.batch_progress is not None
    assert report.batch_progress.buckets.keys() == {"embedded/in/0", "embedded/in/1"}


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


def test_behind_a_filter_a_first_batch_knows_how_much_is_to_come(site: Site) -> None:
    rows = 12000
    filled(site, rows)
    job = Job("filtered")
    some = job.read("in", schema="k string, n long").where("n % 4 = 0")
    some.map(slowly(8 * SECONDS / rows), schema="k string, n long").write("out")
    check(Watched(site.deployed(job, max_rows_per_batch=rows)), rows)


def test_of_a_topic(kafka: KafkaSite) -> None:
    rows = 6000
    name = filled(kafka, rows)
    job = Job(f"{kafka.name}-slow")
    read = job.read(name, schema="k string, n long")
    read.map(slowly(2 * SECONDS / rows), schema="k string, n long").write(out(kafka))
    check(Watched(kafka.deployed(job, max_rows_per_batch=rows)), rows)
