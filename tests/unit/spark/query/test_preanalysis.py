"""Whether what Spark has found out of a coming lane's query holds for the lane as it has come to be."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from anabranch.model.lane import Lane, LaneState, Position
from anabranch.model.ssp import SSP
from anabranch.planning.transition import opening
from anabranch.spark.query.preanalysis import is_as_foreseen
from tests.unit.coordinator.helpers import lane

WHOLE = tuple(SSP(system="kafka", stream="in", partition=p) for p in (0, 1))
HALVES = tuple(SSP(system="kafka", stream="in", partition=0, key_bucket=b) for b in (0, 1))
SAME = {"epoch": 3, "predecessors": ("0-z",), "numbers": {str(ssp): ssp.partition for ssp in WHOLE}}


def announced(ssps: tuple[SSP, ...] = WHOLE, factor: int = 1, **fields: Any) -> Lane:
    return msgspec.structs.replace(lane("0-a"), ssps=ssps, factor=factor, **SAME, **fields)


def begun(lane: Lane, *offsets: int, **fields: Any) -> Lane:
    """The lane once those are closed that it goes on from."""
    starting = tuple(Position(ssp=ssp, offset=at) for ssp, at in zip(lane.ssps, offsets, strict=True))
    its = {"starting": starting, "inherits": {"0-z": 2}, "first_batch": 7, "state": LaneState.RUNNING, **fields}
    return msgspec.structs.replace(lane, **its)


def test_only_where_it_begins_has_come_to_be_known() -> None:
    assert is_as_foreseen(announced(), begun(announced(), 5, 9))
    assert is_as_foreseen(announced(HALVES, 2), begun(announced(HALVES, 2), 5, 5))
    assert is_as_foreseen(announced(HALVES[:1], 2), begun(announced(HALVES[:1], 2), 5))


def test_a_lane_is_as_foreseen_when_the_coordinator_has_opened_it() -> None:
    final = tuple(Position(ssp=ssp, offset=7) for ssp in WHOLE)
    its = {"ssps": WHOLE, "state": LaneState.CLOSED, "begun": True, "folder_epoch": 2, "final": final, "last_batch": 3}
    closed = msgspec.structs.replace(lane("0-z"), **its)
    own = announced()
    opened = opening.opened(own, {"0-z": closed})
    assert opened.start_is_known
    assert is_as_foreseen(own, opened)


def test_buckets_that_begin_apart_need_a_filter() -> None:
    assert not is_as_foreseen(announced(HALVES, 2), begun(announced(HALVES, 2), 5, 6))
    merged = announced(WHOLE[:1])
    parts = (Position(ssp=WHOLE[0], offset=5, parts={"0/2": 5, "1/2": 8}),)
    assert not is_as_foreseen(merged, begun(merged, 5, starting=parts))


@pytest.mark.parametrize(
    "changed",
    [
        {"ssps": WHOLE[:1]},
        {"factor": 2},
        {"numbers": {str(ssp): 1 - ssp.partition for ssp in WHOLE}},
        {"outputs": {"out": 8}},
        {"slots": ("out",)},
        {"rejecting": ("f",)},
        {"epoch": 4},
    ],
)
def test_anything_else_is_another_lane(changed: dict[str, Any]) -> None:
    now = begun(announced(), 5, 9)
    assert not is_as_foreseen(announced(), msgspec.structs.replace(now, **changed))
