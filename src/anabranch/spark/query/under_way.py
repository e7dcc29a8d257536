"""The batch that a lane's query is at, as the driver sees it: noted where it is published, read by who reports it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import monotonic

__all__ = ["COMMITTING", "COMPUTING", "PUBLISHING", "BatchMoment", "CurrentBatch"]

COMPUTING, PUBLISHING, COMMITTING = "computing", "publishing", "committing"


@dataclass(frozen=True)
class BatchMoment:
    """``run``: Spark's id of the query's run; ``since``: when it was planned, in seconds of a monotonic clock;
    ``step``: of computing, publishing and committing it, begun at ``stepped``."""

    number: int
    run: str
    since: float
    stepped: float
    step: str = COMPUTING


class CurrentBatch:
    """Noted by the thread of the query, read by any."""

    def __init__(self) -> None:
        self.now: BatchMoment | None = None

    def begin(self, number: int, run: str) -> None:
        now = monotonic()
        self.now = BatchMoment(number, run, now, now)

    def reach(self, step: str) -> None:
        """The batch has come to a step."""
        if self.now is not None:
            self.now = replace(self.now, step=step, stepped=monotonic())

    def end(self) -> None:
        """It has failed."""
        self.now = None
