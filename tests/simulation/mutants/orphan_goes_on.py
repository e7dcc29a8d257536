"""A container whose outputs can't be fenced goes on without its coordinator."""

from __future__ import annotations

import pytest

from anabranch.container.seat_lease import SeatLease

BREAKS = frozenset({"one-owner", "one-seat", "stopped-is-stopped"})


def apply(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SeatLease, "must_stop", property(lambda self: self._refused))
