"""Records, in the driver, how far along a lane's running batch is, for status reports."""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import monotonic, time

__all__ = ["COMMITTING", "COMPUTING", "PUBLISHING", "BatchMoment", "CurrentBatch"]

COMPUTING, PUBLISHING, COMMITTING = "computing", "publishing", "committing"
_KEPT = 32


@dataclass(frozen=True)
class BatchMoment:
    """How far along a batch is. Times are in seconds on a monotonic clock.

    Attributes:
        run: Spark's id of the query's run.
        since: when the query began to compute the batch.
        stepped: when the current step began.
        step: the current step: computing, publishing or committing.
    """

    number: int
    run: str
    since: float
    stepped: float
    step: str = COMPUTING


class CurrentBatch:
    """Stores how far along a query's batch is. Between two batches, ``now`` still describes the earlier one. ``now`` is
    None before the first batch, and after a batch that has failed. Only the query's thread changes this object, but any
    thread may read it.
    """

    def __init__(self) -> None:
        self.now: BatchMoment | None = None
        self._published: dict[int, float] = {}

    def begin(self, number: int, run: str) -> None:
        now = monotonic()
        self.now = BatchMoment(number, run, now, now)

    def reach(self, step: str) -> None:
        """Record that the batch has reached a step."""
        if self.now is None:
            return
        self.now = replace(self.now, step=step, stepped=monotonic())
        if step == COMMITTING:
            recent = list(self._published.items())[1 - _KEPT :]
            self._published = {**dict(recent), self.now.number: time()}

    def published(self, number: int) -> float | None:
        """When the output of a recent batch became visible to readers, in seconds since 1970; None if unknown."""
        return self._published.get(number)

    def end(self) -> None:
        """Record that the batch has failed, and that no batch is running now."""
        self.now = None
