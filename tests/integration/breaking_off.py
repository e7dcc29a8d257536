"""A lane whose batch takes long, and is broken off when the lane is to end."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from typing import Any

import msgspec

from anabranch import Job
from anabranch.container.lane.runner import LaneRunner
from anabranch.container.retries import Standstill
from anabranch.model.lane import Lane, Position
from anabranch.model.ssp import parsed
from anabranch.protocol.lane_report import LaneReport
from tests.integration.harness import PATIENCE, Deployed, KafkaSite, Site, always

COUNT = 600
"""Records of a batch that takes half a minute: 0.05 s each."""
SOON = 20.0
"""Seconds in which a broken batch is over on a machine that others use: far less than the batch takes."""


class Running:
    """A lane of a job, which runs with nothing to end it."""

    def __init__(self, run: Deployed, lane: Lane) -> None:
        self.run = run
        build = run.building(lane, {})
        begins = always(lane.begins)
        self.runner = LaneRunner(run.lane_folders, lane, run.epoch, build, begins, None, Standstill(math.inf))
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
            query = self.runner.query
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
            folder_epoch=self.report.attempt.folder_epoch,
            last_batch=self.report.progress.batch,
            final=tuple(
                Position(ssp=ssp, offset=offset) for ssp, offset in parsed(self.report.progress.positions).items()
            ),
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

    def running_behind(self, before: int) -> Running:
        """Let its lane run with many records, behind so many of each key that it has done before."""
        if before:
            self.put(before)
            self.run.ran()
        self.put(COUNT, first=before)
        (lane,) = self.run.lanes
        return Running(self.run, lane)

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
