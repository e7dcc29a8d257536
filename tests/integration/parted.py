"""A job whose state has parted, that of a running count at first: from one container to two, as by ``scale``."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count, product
from typing import Any

import msgspec

from anabranch import Job
from anabranch.coordinator.store import Event, Store
from anabranch.model.deployment_state import DeploymentState
from anabranch.model.job_model import JobModel
from anabranch.model.lane import Lane, LaneState, Position
from anabranch.model.ssp import parsed
from anabranch.planning.transition import opening, rescale
from anabranch.protocol.deployment import StartRequest
from anabranch.protocol.lane_report import LaneReport
from tests.integration.harness import Deployed, Site

KEYS = [f"k{n}" for n in range(40)]


def counting() -> Job:
    job = Job("j")
    job.read("in", key="k string", schema="n int").agg(n="count(*)", name="counted").write("counts")
    return job


class Parted:
    """``lanes``: all that there were, by id. ``read``: how many records, in each partition, have been read."""

    def __init__(
        self,
        site: Site,
        job: Job | None = None,
        row: Callable[[int], dict[str, Any]] = lambda n: {"n": n},
        partitions: int = 2,
        inputs: tuple[str, ...] = ("in",),
        **settings: int,
    ) -> None:
        """``row``: the record of a number; each of the ``inputs`` gets it."""
        self.site = site
        self._partitions, self._inputs = partitions, inputs
        for stream in inputs:
            site.log.create(stream, partitions)
        self.job = site.deployed(job or counting(), **settings)
        self._row = row
        self.model: JobModel = self.job.plan.model
        self.lanes: dict[str, Lane] = {}
        self.read = 0
        self._ids = (f"{number:08x}" for number in count(100))

    def put(self, records: int) -> None:
        """Add records to all partitions, and let all lanes read them."""
        self.add(records)
        self.job.ran()

    def add(self, records: int) -> None:
        """Add records to all partitions."""
        numbers = range(self.read, self.read + records)
        for stream, partition in product(self._inputs, range(self._partitions)):
            keys = [KEYS[n * 7 % 40].encode() for n in numbers]
            self.site.put(stream, partition, [self._row(n) for n in numbers], keys)
        self.read += records

    def scale(self, factor: int, containers: int) -> Deployed:
        """Close the lanes that must be, and let others go on from them."""
        self.lanes |= {lane.id: lane for lane in self.job.lanes}
        change = rescale.rescaled(
            self.job.job.graph, self.model, self.lanes, factor, containers, lambda: next(self._ids)
        )
        for name in change.closing:
            self.lanes[name] = _closed(self.lanes[name], self.job.reports[name])
        opened = [opening.opened(lane, self.lanes) for lane in change.lanes]
        kept = [lane for lane in self.job.lanes if lane.id not in change.closing]
        self.model, self.job.lanes = change.model, [*kept, *opened]
        return self.job

    def counts(self) -> dict[str, tuple[int, ...]]:
        """By key, the last counts that came out: one of each partition of the input."""
        found: dict[str, set[int]] = {key: set() for key in KEYS}
        for value in self.site.values("counts"):
            found[value["k"]].add(value["n"])
        return {key: tuple(sorted(its)) for key, its in found.items()}

    def store(self) -> Store:
        """A store in which the job is stopped."""
        self.lanes |= {lane.id: lane for lane in self.job.lanes}
        stored, model = Store("sqlite://"), msgspec.structs.replace(self.model, run_id=1, generation=1)
        lanes = tuple(msgspec.structs.replace(lane, deployment=1) for lane in self.lanes.values())
        start = StartRequest(graph=self.job.job.graph, model=model, lanes=lanes, fingerprint={})
        happened = Event(kind="other", job="j", at=0, who="test", what="stopped")
        stored.create_deployment(start, DeploymentState.STOPPED, happened)
        for _ in range(self.job.epoch):
            stored.reseat([], happened)
        return stored


def _closed(lane: Lane, report: LaneReport) -> Lane:
    final = tuple(Position(ssp=ssp, offset=offset) for ssp, offset in parsed(report.progress.positions).items())
    return msgspec.structs.replace(
        lane,
        state=LaneState.CLOSED,
        final=final,
        last_batch=report.progress.batch,
        watermark=report.event_time.watermark,
    )
