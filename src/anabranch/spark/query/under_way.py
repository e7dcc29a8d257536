"""The present batch of a lane's query, from the driver's point of view. It is recorded where it is published, and read
for reports."""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import monotonic

__all__ = ["COMMITTING", "COMPUTING", "PUBLISHING", "BatchMoment", "CurrentBatch"]

COMPUTING, PUBLISHING, COMMITTING = "computing", "publishing", "committing"


@dataclass(frozen=True)
class BatchMoment:
    """``run``: Spark's id of the query's run. ``since``: when the batch was planned, in seconds on a monotonic clock.
    ``step``: computing, publishing or committing, begun at ``stepped``.
    """

    number: int
    run: str
    since: float
    stepped: float
    step: str = COMPUTING


class CurrentBatch:
    """Written by the query's thread, read by any thread."""

    def __init__(self) -> None:
        self.now: BatchMoment | None = None

    def begin(self, number: int, run: str) -> None:
        now = monotonic()
        self.now = BatchMoment(number, run, now, now)

    def reach(self, step: str) -> None:
        """Record that the batch has reached a step."""
        if self.now is not None:
            self.now = replace(self.now, step=step, stepped=monotonic())

    def end(self) -> None:
        """Record that the batch has failed."""
        self.now = None
