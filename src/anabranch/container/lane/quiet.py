"""Waits until no thread of a stopped query can publish anything."""

from __future__ import annotations

from anabranch.container.lane import breaking_off
from anabranch.container.lane.attempt import Attempt

__all__ = ["wait"]

_WITHIN = 1.0
"""Once a batch is broken off, the thread that was writing the batch ends within this many seconds, unless the thread is
running a user's function.
"""


def wait(attempt: Attempt) -> None:
    while not breaking_off.is_quiet(attempt.folder, _WITHIN):
        why = "was broken off, and the function that it was given to hasn't returned"
        attempt.reporter.update(waits=breaking_off.told(attempt.folder.planned(), why, None))
