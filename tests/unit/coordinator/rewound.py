"""A job with a stage between, whose state holds what was read: it is rewound again and again, as tests play it."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import msgspec

from anabranch import Job
from anabranch.model import lane as lane_model
from anabranch.model.lane import Lane, LaneState, Position
from anabranch.model.ssp import SSP, wholes
from anabranch.planning import plan as planning
from anabranch.planning.transition import rewind
from anabranch.planning.transition.change import Change
from anabranch.protocol.commands import RewindRequest
from tests.unit.coordinator.rewinds import PARTITIONS
from tests.unit.planning.factory import around, new_id

MID = "j-again-1"
LENGTH = 12
Origin = tuple[int, int, int]
"""A pass over the input, a partition of it, an offset."""


class Chain:
    """A stage without state, and one with, where everything happens one thing after the other in any order.

    ``kept``: what each lane's state holds; ``passes``: in which pass over the input a lane was made.
    """

    def __init__(self, containers: int) -> None:
        made = Job("j")
        read = made.read("in", key="k string", schema="n int")
        read.partition_by("n", name="again").agg(n="count(*)", name="counted").write("counts")
        self.graph = made.graph
        plan = planning.make(self.graph, around(containers=containers, **{"in": PARTITIONS}))
        self.model = plan.model
        self.lanes: dict[str, Lane] = {}
        self.read: dict[str, dict[tuple[str, int], int]] = {}
        self.kept: dict[str, list[Origin]] = {}
        self.passes: dict[str, int] = {}
        self.now = 0
        self.mid: list[list[Origin]] = [[] for _ in range(PARTITIONS)]
        for lane in planning.lanes_of(plan, 4, new_id):
            self.lanes[lane.id] = lane
            self._begin(lane)

    def _begin(self, lane: Lane) -> None:
        begins = {(ssp.stream, ssp.partition): 0 for ssp in wholes(lane.ssps)}
        begins |= {(ssp.stream, ssp.partition): offset for ssp, offset in lane.begins.items()}
        self.read[lane.id] = begins
        cleared = lane.rewind is not None and lane.rewind.clear
        self.kept[lane.id] = [] if cleared else [row for name in lane.inherits for row in self.kept[name]]
        self.passes.setdefault(lane.id, self.now)
        state, begun = (lane.state, False) if lane.state is LaneState.CLOSING else (LaneState.RUNNING, True)
        self._put(lane, state=state, folder_epoch=1, begun=begun)

    def _put(self, lane: Lane, **fields: Any) -> None:
        self.lanes[lane.id] = msgspec.structs.replace(lane, **fields)

    @property
    def changing(self) -> bool:
        return any(lane.state in (LaneState.PLANNED, LaneState.CLOSING) for lane in self.lanes.values())

    def move(self, change: Change) -> None:
        for name in change.closing:
            self._put(self.lanes[name], state=LaneState.CLOSING)
        self.model = change.model
        for lane in change.lanes:
            self.lanes[lane.id] = lane
            self.passes[lane.id] = self.now

    def rewind(self, to: dict[str, int], state: str) -> None:
        self.now += state == "clear"
        self.move(rewind.rewound(self.graph, self.model, self.lanes, to, state, new_id))

    def turn(self, dice: random.Random, most: int = 4) -> None:
        """Something happens to a lane that isn't closed."""
        lane = dice.choice([lane for lane in self.lanes.values() if lane.state is not LaneState.CLOSED])
        if lane.id not in self.read:
            if all(self.lanes[name].state is LaneState.CLOSED for name in lane.waits_for):
                self._begin(rewind.opened(lane, self.lanes))
            return
        if lane.begun:
            self._work(lane, dice.randrange(most + 1))
        if lane.state is LaneState.CLOSING and dice.random() < 0.5:
            self._close(self.lanes[lane.id])

    def _work(self, lane: Lane, records: int) -> None:
        for (stream, partition), at in list(self.read[lane.id].items()):
            end = LENGTH if stream == "in" else len(self.mid[partition])
            for offset in range(at, min(end, at + records)):
                if stream == "in":
                    self.mid[offset * 7 % PARTITIONS].append((self.passes[lane.id], partition, offset))
                else:
                    self.kept[lane.id].append(self.mid[partition][offset])
            self.read[lane.id][stream, partition] = max(at, min(end, at + records))

    def _close(self, lane: Lane) -> None:
        final = [
            Position(ssp=SSP(system="embedded", stream=stream, partition=partition), offset=offset)
            for (stream, partition), offset in self.read[lane.id].items()
        ]
        writes = MID in lane.outputs
        wrote = {f"embedded/{MID}/{p}": len(rows) for p, rows in enumerate(self.mid)} if writes else {}
        self._put(lane, state=LaneState.CLOSED, final=tuple(final), last_batch=3, wrote=wrote)

    def finish(self, dice: random.Random) -> None:
        for _ in range(10_000):
            self.turn(dice, most=LENGTH)
            if not self.changing and not any(self._left(lane) for lane in self.open):
                return
        raise AssertionError("it doesn't end")

    @property
    def open(self) -> list[Lane]:
        return lane_model.open_lanes(self.lanes.values())

    def _left(self, lane: Lane) -> bool:
        return any(
            at < (LENGTH if stream == "in" else len(self.mid[p])) for (stream, p), at in self.read[lane.id].items()
        )

    @property
    def state(self) -> Counter[Origin]:
        return Counter(row for lane in self.open if lane.stateful for row in self.kept[lane.id])


def clear(to: Any = "earliest", **given: Any) -> RewindRequest:
    return RewindRequest(to=to, state="clear", **given)
