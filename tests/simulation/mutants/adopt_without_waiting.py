"""A coordinator that wins the election counts no lease for the processes that it finds: it expels them at once."""

from __future__ import annotations

import pytest

from anabranch.coordinator.jobs.registry import JobRegistry

BREAKS = frozenset({"one-owner", "one-seat"})


def apply(patch: pytest.MonkeyPatch) -> None:
    adopt = JobRegistry.adopt

    def hasty(self: JobRegistry, job: str) -> bool:
        served = adopt(self, job)
        if job in self.jobs:
            for process in self.jobs[job].seats.processes.values():
                process.lease_ends = float("-inf")
        return served

    patch.setattr(JobRegistry, "adopt", hasty)
