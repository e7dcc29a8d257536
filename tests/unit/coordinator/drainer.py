"""A job that drains, as tests play it."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from anabranch import Job, tumbling
from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.store import Store
from anabranch.model.lane import Lane
from anabranch.model.ssp import SSP, wholes
from anabranch.planning import plan as planning
from anabranch.protocol.container import WantedLane
from anabranch.protocol.deployment import StartRequest
from anabranch.protocol.drain import DrainNotification
from anabranch.protocol.lane_report import LanePhase
from tests.support.reports import lane_report
from tests.unit.coordinator.programs import PROGRAM
from tests.unit.coordinator.workers import JOB, Worker
from tests.unit.planning.factory import around, new_id


def job(counted: str = "count(*)") -> Job:
    """Three stages; in the second one windows, and a running count that the third one reads."""
    made = Job(JOB)
    rows = made.read("in", key="k string", schema="n int, at timestamp", event_time="at", watermark="1 minute")
    rows.where("n > 0").write("out")
    keyed = rows.partition_by("n", name="by-n")
    keyed.window(tumbling("1 hour")).agg(c="count(*)", name="windows").write("hourly")
    keyed.agg(c=counted, name="counted").partition_by("c", name="by-c").write("counts")
    return made


def start(counted: str = "count(*)") -> StartRequest:
    graph = job(counted).graph
    plan = planning.make(graph, around("partition", 1, 1, **{"in": 2}))
    return StartRequest(
        graph=graph, model=plan.model, lanes=planning.lanes_of(plan, 4, new_id), fingerprint={}, program=PROGRAM
    )


class Drainer(Worker):
    """``places``: where a lane stops that reads a source, by its id; else it is at 10. It reads on where it is told to.

    Each lane's boundary streams end at 40.
    """

    def __init__(
        self, coordinator: Coordinator, pid: int = 1, places: Mapping[str, int] | None = None, seat: str = "0"
    ) -> None:
        super().__init__(coordinator, seat, pid)
        self.read = 10
        self.places = dict(places or {})
        self.slow: set[str] = set()

    def do(self, one: WantedLane) -> None:
        lane, how = one.lane, one.draining
        if how is None or lane.id in self.slow:
            super().do(one)
            return
        at = {str(w): max(self.places.get(lane.id, self.read), _begin(lane, w)) for w in wholes(lane.ssps)}
        if how.until is not None:
            at = {ssp: how.until.get(ssp, 40) for ssp in at}
        ends = how.last and (one.upstream_ended or not lane.upstream)
        self.reports[lane.id] = lane_report(
            lane=lane.id,
            phase=LanePhase.ENDED if ends else "running",
            folder_epoch=lane.folder_epoch or lane.epoch,
            positions=at,
            batch=9,
            halted="" if ends or lane.upstream else how.uuid,
            drained=ends,
            wrote={f"embedded/{stream}/{p}": 40 for stream, count in lane.outputs.items() for p in range(count)},
        )


def _begin(lane: Lane, whole: SSP) -> int:
    return lane.begins.get(whole, 0)


def said(deployment: int = 1, **fields: Any) -> DrainNotification:
    return DrainNotification(**{"uuid": str(uuid.uuid4()), "run_id": deployment, **fields})


def lanes_of(store: Store, deployment: int) -> list[Lane]:
    return [lane for lane in store.lanes(JOB).values() if lane.deployment == deployment]


def sources(store: Store) -> list[Lane]:
    return [lane for lane in store.lanes(JOB).values() if not lane.upstream]


def running(coordinator: Coordinator, **places: int) -> Drainer:
    coordinator.start(start())
    worker = Drainer(coordinator, places=places)
    worker.turns()
    assert coordinator.status(JOB).state == "running"
    return worker
