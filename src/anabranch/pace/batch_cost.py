"""Estimates how long a batch of a given number of records takes, based on the most recent batches."""

from __future__ import annotations

import statistics
from collections import deque
from dataclasses import dataclass, field

__all__ = ["BatchCost", "RecentBatches"]

_KEPT = 5
"""The number of batches from which the cost is determined."""


@dataclass(frozen=True)
class BatchCost:
    """The time that a batch takes, in seconds: ``fixed`` for the batch itself, and ``per_record`` for the work of the
    job's functions on each record."""

    fixed: float
    per_record: float

    def seconds(self, records: float) -> float:
        """The seconds that a batch with ``records`` records is expected to take."""
        return self.fixed + self.per_record * records


@dataclass(frozen=True)
class _Batch:
    seconds: float
    records: int
    functions: float


@dataclass
class RecentBatches:
    """The most recent batches of a lane, from which the cost of a batch is estimated."""

    _batches: deque[_Batch] = field(default_factory=lambda: deque(maxlen=_KEPT))

    def ran(self, seconds: float, records: int, functions: float | None) -> None:
        """Record a batch. ``functions`` is the part of the batch's ``seconds`` that the job's functions took; None if
        this part wasn't measured. If ``functions`` is None, the batch isn't recorded, and all earlier batches are
        forgotten.
        """
        if functions is None:
            self._batches.clear()
        else:
            self._batches.append(_Batch(seconds, records, functions))

    @property
    def cost(self) -> BatchCost | None:
        """The cost of a batch, estimated from the recorded batches; None if these batches have no records, or if the
        job's functions took no time in them.
        """
        records, functions = sum(each.records for each in self._batches), sum(each.functions for each in self._batches)
        if records <= 0 or functions <= 0.0:
            return None
        fixed = statistics.median(max(0.0, each.seconds - each.functions) for each in self._batches)
        return BatchCost(fixed, functions / records)
