"""How long a batch takes, depending on its number of records, as measured in the last batches. No clock, no Spark."""

from __future__ import annotations

import statistics
from collections import deque
from dataclasses import dataclass, field

__all__ = ["BatchCost", "RecentBatches"]

_KEPT = 5
"""The number of batches from which the cost is determined."""


@dataclass(frozen=True)
class BatchCost:
    """The seconds that a lane's batches take: ``fixed`` for each batch, and ``per_record`` for each record, in the
    job's functions."""

    fixed: float
    per_record: float

    def seconds(self, records: float) -> float:
        """The expected seconds of a batch with ``records`` records."""
        return self.fixed + self.per_record * records


@dataclass(frozen=True)
class _Batch:
    seconds: float
    records: int
    functions: float


@dataclass
class RecentBatches:
    """The last batches of a lane, and the time that they have taken."""

    _batches: deque[_Batch] = field(default_factory=lambda: deque(maxlen=_KEPT))

    def ran(self, seconds: float, records: int, functions: float | None) -> None:
        """Record a batch. ``functions`` says how many of its ``seconds`` were spent in functions of the job; None if
        the batch was too short to measure this, so that earlier batches no longer count either.
        """
        if functions is None:
            self._batches.clear()
        else:
            self._batches.append(_Batch(seconds, records, functions))

    @property
    def cost(self) -> BatchCost | None:
        """The cost of batches, estimated from the recorded ones. None if functions took no time in them: the duration
        of a batch then doesn't depend on its records. A single batch that was held up has little influence, and large
        batches have more influence than small ones.
        """
        records, functions = sum(each.records for each in self._batches), sum(each.functions for each in self._batches)
        if records <= 0 or functions <= 0.0:
            return None
        fixed = statistics.median(max(0.0, each.seconds - each.functions) for each in self._batches)
        return BatchCost(fixed, functions / records)
