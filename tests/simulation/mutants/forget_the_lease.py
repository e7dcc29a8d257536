"""A process loses its seat while its lease lasts."""

from __future__ import annotations

import pytest

from anabranch.coordinator.service import Coordinator
from tests.simulation.coordinators import LEASE

BREAKS = frozenset({"one-owner", "one-seat"})


def apply(patch: pytest.MonkeyPatch) -> None:
    tick = Coordinator._tick

    def hasty(self: Coordinator, serving: object) -> None:
        with pytest.MonkeyPatch.context() as within:
            within.setattr(self, "_grace", -LEASE / 2)
            tick(self, serving)  # type: ignore[arg-type]

    patch.setattr(Coordinator, "_tick", hasty)
