"""What a job may be told of its own life."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ON_DRAIN", "DrainedTask"]

ON_DRAIN = -1
"""Stands among the functions of a job, which are by node, for the one that is called when it drains."""


@dataclass(frozen=True)
class DrainedTask:
    """A task of a stage that has drained: all that it has taken in is written, windows and timers too."""

    job: str
    stage: str
    name: str
