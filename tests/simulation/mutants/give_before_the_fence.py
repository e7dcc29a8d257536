"""A seat that was lost is given to another process, with its lanes, before they are fenced."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from anabranch.coordinator.jobs import seats

BREAKS = frozenset({"one-owner", "exactly-once", "one-seat"})


def apply(patch: pytest.MonkeyPatch) -> None:
    expel = seats.expel

    def given(job: Any, process: Any, lanes: Any) -> None:
        expel(job, process, [msgspec.structs.replace(lane, unfenced=False) for lane in lanes])

    patch.setattr(seats, "expel", given)
