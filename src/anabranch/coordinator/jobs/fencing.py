"""Fences a lane at its outputs: nothing that its former process writes to a fenced output becomes visible any more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from anabranch import config as configuration
from anabranch.model.lane import Lane
from anabranch.systems.systems import Systems

__all__ = ["Fence", "fence"]


@dataclass(frozen=True)
class Fence:
    """A lane that must be fenced under its epoch, to shut out its former process. ``settings`` are the job's."""

    lane: Lane
    settings: Mapping[str, Any]


def fence(lane: Lane, settings: Mapping[str, Any]) -> None:
    """Fence a lane under its epoch. This can be repeated, for example after an error.

    Streams with at-least-once output and functions of ``foreach_batch`` can't be fenced. They are skipped, because the
    process that uses them stops within its lease. Tables of a user's class are also skipped, because the class isn't
    available here: the process that gets the lane fences them before it writes.

    Raises:
        AnabranchError: a system doesn't answer, or a process with a higher epoch owns the lane.
    """
    systems = Systems(configuration.of_job(lane.job, settings), lane.job)
    systems.fence(lane, lane.epoch, new=False if lane.ran else None)
    systems.fence_tables(lane, lane.epoch, new=False if lane.ran else None, foreign=False)
