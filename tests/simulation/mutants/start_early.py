"""A lane may start before its predecessors are closed."""

from __future__ import annotations

import msgspec
import pytest

from anabranch.coordinator.jobs.running_job import RunningJob
from anabranch.messages import WantedLane

BREAKS = frozenset({"predecessors-first"})


def apply(patch: pytest.MonkeyPatch) -> None:
    wanted = RunningJob.wanted

    def early(self: RunningJob) -> tuple[WantedLane, ...]:
        known = self.known
        self.known = {lane.id: msgspec.structs.replace(lane, predecessors=()) for lane in known.values()}
        try:
            found = wanted(self)
        finally:
            self.known = known
        return tuple(
            msgspec.structs.replace(
                each, lane=msgspec.structs.replace(each.lane, predecessors=known[each.lane.id].predecessors)
            )
            for each in found
        )

    patch.setattr(RunningJob, "wanted", early)
