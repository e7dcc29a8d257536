"""A lane that is to end breaks a long batch off: nobody has seen anything of it, and whoever follows does it again."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from anabranch import Job
from anabranch.container.attempts import Standstill
from anabranch.container.lane import LaneRunner
from anabranch.messages import LaneReport
from anabranch.model.lane import Lane, Position
from anabranch.model.ssp import parsed
from tests.integration.harness import PATIENCE, Deployed, KafkaSite, Site

ROW = "n int, slow string"
COUNT = 600
"""Records of a batch that takes half a minute: 0.05 s each."""
SOON = 20.0
"""Seconds in which a broken batch is over on a machine that others use: far less than the batch takes."""


@pytest.fixture(params=["embedded", "kafka"])
def any_site(request: pytest.FixtureRequest) -> Iterator[Site]:
    """A site of either system."""
    name = "site" if request.param == "embedded" else "kafka"
    return request.getfixturevalue(name)


def slowly(message: dict[str, Any]) -> dict[str, Any]:
    if Path(message["slow"]).exists():
        time.sleep(0.05)
    return message


class Running:
    """A lane of a job, which runs with nothing to end it."""

    def __init__(self, run: Deployed, lane: Lane) -> None:
        self.run = run
        build = run._building(lane, {})
        self.runner = LaneRunner(run._place, lane, run.epoch, build, lane.begins, None, Standstill(math.inf))
        self.runner.start()
        self.runner.acknowledge(upstream_ended=False)

    @property
    def report(self) -> LaneReport:
        return self.runner.report

    def until(self, what: str, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, f"no {what}: {self.report}"
            assert self.report.phase != "failed", self.report
            time.sleep(0.02)

    def until_in_batch(self, number: int, seconds: float = 2.0) -> None:
        """Wait until it has written a batch for so many seconds."""

        def is_there() -> bool:
            query = self.runner._query
            if query is None or not query.writing.is_set():
                return False
            return query.gate.number == number and query.gate.seconds > seconds

        self.until(f"batch {number}", is_there)

    def closed(self, within: float = SOON) -> Lane:
        """Close it, and give the lane as others go on from it."""
        self.runner.close()
        return self.ended(within)

    def ended(self, within: float = PATIENCE) -> Lane:
        assert self.runner.join(within), self.report
        assert self.report.phase == "ended", self.report
        self.run.epoch += 1
        return msgspec.structs.replace(
            self.runner.lane,
            folder_epoch=self.report.folder_epoch,
            last_batch=self.report.batch,
            final=tuple(Position(ssp=ssp, offset=offset) for ssp, offset in parsed(self.report.positions).items()),
        )


def follower(lane: Lane, name: str = "0-ffffffff") -> Lane:
    """A lane that goes on from one that was closed, and does what that has done."""
    return msgspec.structs.replace(
        lane,
        id=name,
        epoch=0,
        folder_epoch=0,
        predecessors=(lane.id,),
        beside={name: (lane.id,)},
        inherits={lane.id: lane.folder_epoch},
        starting=lane.final,
        first_batch=lane.last_batch + 1 if lane.stateful else 0,
        last_batch=lane.last_batch if lane.stateful else -1,
        final=(),
    )


class Slow:
    """A job whose function is slow until :meth:`hurry`."""

    def __init__(self, site: Site, job: Callable[[str, str], Job], **settings: Any) -> None:
        self.site = site
        self.file = site.root / "slow"
        self.file.touch()
        self.inputs, self.outputs = self._created("in"), self._created("out")
        self.run = site.deployed(job(self.inputs, self.outputs), **settings)

    def _created(self, name: str) -> str:
        if isinstance(self.site, KafkaSite):
            return self.site.create(name, 2)
        self.site.log.create(name, 2)
        return name

    def put(self, count: int, first: int = 0) -> None:
        for p in range(2):
            rows = [{"n": n, "slow": str(self.file)} for n in range(first, first + count)]
            self.site.put(self.inputs, p, rows, [f"k{p}".encode()] * count)

    def hurry(self) -> None:
        self.file.unlink()

    def numbers(self) -> dict[bytes, list[int]]:
        """What was written of each key, in order."""
        found: dict[bytes, list[int]] = {}
        for record in self.site.all_records(self.outputs):
            found.setdefault(record["key"], []).append(json.loads(record["value"])["n"])
        return found


def mapped(inputs: str, outputs: str) -> Job:
    job = Job(f"j-{inputs}")
    job.read(inputs, key="k string", schema="n int, slow string").map(
        slowly, schema="k string, n int, slow string"
    ).write(outputs)
    return job


def test_a_stop_leaves_a_long_batch_planned_and_it_is_run_as_it_was(any_site: Site) -> None:
    slow = Slow(any_site, mapped)
    slow.put(COUNT)
    (lane,) = slow.run.lanes
    running = Running(slow.run, lane)
    running.until_in_batch(0)
    running.runner.stop()
    lane = running.ended(SOON)
    assert (running.report.pending, running.report.batch) == (True, -1)
    assert slow.numbers() == {}
    slow.hurry()
    slow.put(10, first=COUNT)
    slow.run.lanes = [lane]
    slow.run.ran()
    assert slow.numbers() == {b"k0": [*range(COUNT + 10)], b"k1": [*range(COUNT + 10)]}


@pytest.mark.parametrize("before", [0, 10])
def test_a_closing_lane_takes_its_batch_back_and_others_read_the_records_again(any_site: Site, before: int) -> None:
    slow = Slow(any_site, mapped)
    (lane,) = slow.run.lanes
    if before:
        slow.put(before)
        slow.run.ran()
        (lane,) = slow.run.lanes
    slow.put(COUNT, first=before)
    running = Running(slow.run, lane)
    running.until_in_batch(1 if before else 0)
    lane = running.closed()
    folder = slow.run.folder(lane)
    last = 0 if before else -1
    assert (running.report.pending, running.report.batch, folder.planned()) == (False, last, last)
    assert {each.offset for each in lane.final} <= {before, before + 1}  # Kafka counts the ends of transactions
    assert sum(map(len, slow.numbers().values())) == 2 * before
    slow.hurry()
    slow.run.lanes = [follower(lane)]
    slow.run.ran()
    assert slow.numbers() == {b"k0": [*range(COUNT + before)], b"k1": [*range(COUNT + before)]}
