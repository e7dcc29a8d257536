"""A process loses its seat while its lease lasts."""

from __future__ import annotations

import pytest

from anabranch.coordinator.jobs.membership import Membership
from anabranch.coordinator.jobs.running_job import RunningJob
from tests.simulation.coordinators import LEASE

BREAKS = frozenset({"one-owner", "one-seat"})


def apply(patch: pytest.MonkeyPatch) -> None:
    expel = Membership.expel_silent

    def hasty(self: Membership, running_job: RunningJob) -> bool:
        with pytest.MonkeyPatch.context() as within:
            within.setattr(self, "_grace", -LEASE / 2)
            return expel(self, running_job)

    patch.setattr(Membership, "expel_silent", hasty)
