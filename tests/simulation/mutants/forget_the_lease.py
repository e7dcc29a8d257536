"""A process loses its seat while its lease lasts."""

from __future__ import annotations

import pytest

from anabranch.coordinator.service import Coordinator
from anabranch.coordinator.serving import Serving
from tests.simulation.coordinators import LEASE

BREAKS = frozenset({"one-owner", "one-seat"})


def apply(patch: pytest.MonkeyPatch) -> None:
    expel = Coordinator._expel_silent

    def hasty(self: Coordinator, serving: Serving) -> bool:
        with pytest.MonkeyPatch.context() as within:
            within.setattr(self, "_grace", -LEASE / 2)
            return expel(self, serving)

    patch.setattr(Coordinator, "_expel_silent", hasty)
