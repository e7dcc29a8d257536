"""Fences a lane at all its outputs. After that, nothing that its former process writes can become visible there."""

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
    """A lane whose former process must be stopped permanently at the outputs, under the lane's epoch."""

    lane: Lane
    settings: Mapping[str, Any]


def fence(lane: Lane, settings: Mapping[str, Any]) -> None:
    """Fence a lane under its epoch. Idempotent; after an error, call it again.

    Outputs that can't be fenced are skipped: their writer stops within its lease. Tables with a user's class are
    skipped, too, because their code isn't available here: the lane's next owner fences them first.

    Raises:
        AnabranchError: a system doesn't answer, or a process with a higher epoch owns the lane.
    """
    systems = Systems(configuration.of_job(lane.job, settings), lane.job)
    systems.fence(lane, lane.epoch, new=False if lane.ran else None)
    systems.fence_tables(lane, lane.epoch, new=False if lane.ran else None, foreign=False)
