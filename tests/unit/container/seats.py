"""The lease of a container's seat, with a clock that tests move by hand."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.container.seat_lease import SeatLease
from anabranch.protocol.container import HeartbeatResponse, RegistrationResponse
from tests.unit.coordinator.helpers import Clock

LEASE = 9.0
ME = RegistrationResponse(lease=LEASE, seat="0", container="delays:0:1", epoch=1, reads_parts=True)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=[True, False], ids=["survives", "must not survive"])
def survives(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def seat_lease_of(clock: Clock, *, survives: bool = True, me: RegistrationResponse = ME) -> SeatLease:
    why = "" if survives else "this container's outputs can't be fenced"
    return SeatLease(me, clock.at, clock, stops_because=why)


def ok(revision: int, **fields: Any) -> HeartbeatResponse:
    return HeartbeatResponse(alive=True, revision=revision, **fields)
