"""When a lane that failed gets another attempt, and when its process is replaced. No clock, no threads, no Spark.

An attempt in the same Java process can't heal one that is broken. So lanes that fail again and again for a reason that
nobody knows get a new process before the job is called failed: the lanes go on in it as after a crash.
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
"""New processes in a row, with no progress of what failed."""


class Step(enum.Enum):
    """What follows a failure of a lane."""

    ATTEMPT = "another attempt in this process"
    PROCESS = "a new process"
    FAILED = "the lane has failed"


def step(remedy: Remedy, *, attempts_left: bool, processes_left: bool) -> Step:
    """What follows a failure that this may help."""
    if remedy is Remedy.NONE:
        return Step.FAILED
    if attempts_left or remedy is Remedy.WAIT:  # how long it is tried then, the wait says
        return Step.ATTEMPT
    return Step.PROCESS if remedy is Remedy.PROCESS and processes_left else Step.FAILED


@dataclass(frozen=True)
class Restarts:
    """How often a process was replaced in a row. ``batches``: the last committed one of each lane when it was replaced
    last (-1: none); ``why`` it was."""

    number: int = 0
    batches: Mapping[str, int] = field(default_factory=dict)
    why: str = ""

    def after(self, lane: str, batches: Mapping[str, int], why: str) -> Restarts | None:
        """The next one, for a lane that fails now; None: there were enough of them without progress of this lane.

        Args:
            lane: the empty text if the Java process has ended: then progress of any lane counts.
            batches: the last committed one by lane, now.
        """
        failed = [lane] if lane else [*batches]
        progress = any(batches.get(each, -1) > self.batches.get(each, -1) for each in failed)
        number = 1 if progress else self.number + 1
        return None if number > MOST else Restarts(number, dict(batches), why)

    def to_text(self) -> str:
        return json.dumps({"number": self.number, "batches": {**self.batches}, "why": self.why})

    @classmethod
    def of_text(cls, text: str) -> Restarts:
        """The inverse; of an empty text, those of a process that replaces none."""
        return cls(**json.loads(text)) if text else cls()


class ProcessBrokenError(AnabranchError):
    """Lanes fail in this process whatever is tried; in a new one they go on. ``restarts``: what that is to know."""

    def __init__(self, restarts: Restarts) -> None:
        super().__init__(f"the lanes need a new process: {restarts.why}", "start the process again")
        self.restarts = restarts
