"""Where a lane begins to read once another stream, or one that has lost its end, is accepted."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.container.checkpoint.acceptance import Acceptance, continued
from anabranch.model.lane import Lane, Position
from anabranch.model.ssp import SSP
from tests.unit.coordinator.helpers import lane

FLIGHTS = SSP(system="kafka", stream="flights", partition=0)
OTHER = SSP(system="kafka", stream="other", partition=0)


def found(of: Lane, limit: int, anew: bool) -> Acceptance:
    return Acceptance(of, None, [], "flights", "id", anew, {0: 80}, {0: min(80, limit)}, {0: limit})


def of_two_halves(**fields: Any) -> Lane:
    """A lane at factor 1 that continues two lanes at factor 2, of which one was further."""
    starting = (
        Position(ssp=FLIGHTS, offset=100, parts={"0/2": 100, "1/2": 500}),
        Position(ssp=OTHER, offset=7, parts={"0/2": 7, "1/2": 9}),
    )
    return lane("0-1", starting=starting, **fields)


@pytest.mark.parametrize(("limit", "anew"), [(0, True), (3, True), (90, False)])
def test_no_key_begins_after_the_new_position(limit: int, anew: bool) -> None:
    its = of_two_halves(final=(Position(ssp=FLIGHTS, offset=600),))
    now = continued(its, found(its, limit, anew))
    (position, other), (final,) = now.starting, now.final
    assert position.offset == limit
    assert not position.parts or set(position.parts.values()) == {limit}
    assert final.offset == limit
    assert other == its.starting[1], "the other stream stays"


def test_parts_that_begin_before_the_end_of_the_stream_stay() -> None:
    its = of_two_halves()
    position = continued(its, found(its, 300, anew=False)).starting[0]
    assert (position.offset, position.parts) == (100, {"0/2": 100, "1/2": 300})
    assert continued(its, found(its, 500, anew=False)) == its


def test_tasks_of_a_broadcast_input_begin_no_later() -> None:
    its = lane(
        "0-1", broadcast=(FLIGHTS,), starting=(Position(ssp=FLIGHTS, offset=100, parts={"0:0/1": 500, "1:0/1": 200}),)
    )
    assert continued(its, found(its, 0, anew=True)).starting == (Position(ssp=FLIGHTS, offset=0),)
    lowered = continued(its, found(its, 300, anew=False)).starting
    assert lowered == (Position(ssp=FLIGHTS, offset=100, parts={"0:0/1": 300, "1:0/1": 200}),)
