"""A coordinator that wins the election counts no lease for the processes that it finds: it expels them at once."""

from __future__ import annotations

import pytest

from anabranch.coordinator.service import Coordinator

BREAKS = frozenset({"one-owner", "one-seat"})


def apply(patch: pytest.MonkeyPatch) -> None:
    adopt = Coordinator.adopt

    def hasty(self: Coordinator, job: str) -> bool:
        served = adopt(self, job)
        if job in self._served:
            for process in self._served[job].processes.values():
                process.lease_ends = float("-inf")
        return served

    patch.setattr(Coordinator, "adopt", hasty)
