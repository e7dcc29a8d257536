"""A change is undone although the lane that failed may have written something: that is written again."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from anabranch.coordinator.jobs import reports, seats

BREAKS = frozenset({"each-once", "state-goes-along", "exactly-once"})


def apply(patch: pytest.MonkeyPatch) -> None:
    applied, expel = reports.applied, seats.expel

    def unmarked(lane: Any) -> Any:
        return msgspec.structs.replace(lane, begun=False) if lane.begun else lane

    patch.setattr(reports, "applied", lambda lane, report: unmarked(applied(lane, report)))
    patch.setattr(seats, "expel", lambda job, process, lanes: expel(job, process, list(map(unmarked, lanes))))
