"""A lane may start before its predecessors are closed."""

from __future__ import annotations

import msgspec
import pytest

from anabranch.coordinator.jobs import offers
from anabranch.coordinator.jobs.running_job import RunningJob
from anabranch.protocol.container import WantedLane

BREAKS = frozenset({"predecessors-first"})


def apply(patch: pytest.MonkeyPatch) -> None:
    wanted = offers.wanted

    def early(job: RunningJob) -> tuple[WantedLane, ...]:
        known = job.known
        job.known = {lane.id: msgspec.structs.replace(lane, predecessors=()) for lane in known.values()}
        try:
            found = wanted(job)
        finally:
            job.known = known
        return tuple(
            msgspec.structs.replace(
                each, lane=msgspec.structs.replace(each.lane, predecessors=known[each.lane.id].predecessors)
            )
            for each in found
        )

    patch.setattr(offers, "wanted", early)
