"""Decides whether a failed lane gets another attempt, and whether its process is replaced. Pure: no clock, no threads,
no Spark.

If a lane fails repeatedly because of the Java process, or for an unknown reason, further attempts in the same process
may not help. Before the lane counts as failed, both processes, Java and Python, are therefore replaced if possible. All
lanes of the process continue as after a crash.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from anabranch.container.error_text import Remedy
from anabranch.errors import AnabranchError

__all__ = ["MOST", "ProcessBrokenError", "Restarts", "Step", "step"]

MOST = 2
"""How many times in a row the process can be replaced while the failed lane makes no progress."""


class Step(enum.Enum):
    """What follows a failure of a lane."""

    ATTEMPT = "another attempt in this process"
    PROCESS = "a new process"
    FAILED = "the lane has failed"


def step(remedy: Remedy, *, attempts_left: bool, processes_left: bool) -> Step:
    """What follows a failure. ``remedy`` is what might help. ``attempts_left`` is True if the lane can have another
    attempt, and ``processes_left`` is True if it can have another process."""
    if remedy is Remedy.NONE:
        return Step.FAILED
    if attempts_left or remedy is Remedy.WAIT:  # the length of a wait is limited elsewhere
        return Step.ATTEMPT
    return Step.PROCESS if remedy is Remedy.PROCESS and processes_left else Step.FAILED


@dataclass(frozen=True)
class Restarts:
    """The replacements of a process so far.

    Attributes:
        number: how many replacements there were in a row, without progress by the failed lane in between.
        batches: the highest batch that each lane was known to have committed at the last replacement (-1: none).
        why: the reason for the last replacement.
    """

    number: int = 0
    batches: Mapping[str, int] = field(default_factory=dict)
    why: str = ""

    def after(self, lane: str, batches: Mapping[str, int], why: str) -> Restarts | None:
        """The record of replacements for the process that replaces this one. None if this process can't be replaced.
        A process can't be replaced if there would be more than ``MOST`` replacements in a row without progress.

        If the failed lane has committed a batch since the last replacement, the next replacement counts as the first in
        a row.

        Args:
            lane: the failed lane; empty if the Java process has ended. If empty, progress of any lane counts.
            batches: the last committed batch of each lane for which it is known. (A new attempt doesn't know its lane's
                last batch until the query runs.)
            why: the reason for the next replacement.
        """
        failed = [lane] if lane else [*batches]
        progress = any(batches.get(each, -1) > self.batches.get(each, -1) for each in failed)
        number = 1 if progress else self.number + 1
        known = {each: max(batches.get(each, -1), self.batches.get(each, -1)) for each in {**self.batches, **batches}}
        return None if number > MOST else Restarts(number, known, why)

    def to_text(self) -> str:
        return json.dumps({"number": self.number, "batches": {**self.batches}, "why": self.why})

    @classmethod
    def of_text(cls, text: str) -> Restarts:
        """The inverse of :meth:`to_text`. An empty text stands for a process that hasn't replaced another one."""
        return cls(**json.loads(text)) if text else cls()


class ProcessBrokenError(AnabranchError):
    """Raised when only a new process can help the lanes of this process. Whoever starts the new process must pass
    ``restarts`` on to it."""

    def __init__(self, restarts: Restarts) -> None:
        super().__init__(f"the lanes need a new process: {restarts.why}", "start the process again")
        self.restarts = restarts
