"""A job with a running count whose state has parted: from one container to two, as ``anabranch scale`` does it."""

from __future__ import annotations

from itertools import count

import msgspec

from anabranch import Job
from anabranch.coordinator.store import Event, Store
from anabranch.messages import LaneReport, Start
from anabranch.model.job_model import JobModel
from anabranch.model.lane import Lane, LaneState, Position
from anabranch.model.ssp import parsed
from anabranch.planning import changes
from tests.integration.harness import Deployed, Site

KEYS = [f"k{n}" for n in range(40)]


def counting() -> Job:
    job = Job("j")
    job.read("in", key="k string", schema="n int").agg(n="count(*)", name="counted").write("counts")
    return job


class Parted:
    """``lanes``: all that there were, by id. ``put``: how many records, in two partitions, have been read."""

    def __init__(self, site: Site, **settings: int) -> None:
        self.site = site
        site.log.create("in", 2)
        self.job = site.deployed(counting(), **settings)
        self.model: JobModel = self.job.plan.model
        self.lanes: dict[str, Lane] = {}
        self.read = 0
        self._ids = (f"{number:08x}" for number in count(100))

    def put(self, records: int) -> None:
        """Add records to both partitions, and let all lanes read them."""
        numbers = range(self.read, self.read + records)
        for partition in (0, 1):
            self.site.put("in", partition, [{"n": n} for n in numbers], [KEYS[n * 7 % 40].encode() for n in numbers])
        self.read += records
        self.job.ran()

    def scale(self, factor: int, containers: int) -> Deployed:
        """Close the lanes that must be, and let others go on from them."""
        self.lanes |= {lane.id: lane for lane in self.job.lanes}
        change = changes.rescaled(
            self.job.job.graph, self.model, self.lanes, factor, containers, lambda: next(self._ids)
        )
        for name in change.closing:
            self.lanes[name] = _closed(self.lanes[name], self.job.reports[name])
        opened = [changes.opened(lane, self.lanes) for lane in change.lanes]
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
        start = Start(graph=self.job.job.graph, model=model, lanes=lanes, fingerprint={})
        happened = Event(job="j", at=0, who="test", what="stopped")
        stored.create_deployment(start, "stopped", happened)
        for _ in range(self.job.epoch):
            stored.reseat([], happened)
        return stored


def _closed(lane: Lane, report: LaneReport) -> Lane:
    final = tuple(Position(ssp=ssp, offset=offset) for ssp, offset in parsed(report.positions).items())
    return msgspec.structs.replace(
        lane, state=LaneState.CLOSED, final=final, last_batch=report.batch, watermark=report.watermark
    )
