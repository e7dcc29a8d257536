"""How long a batch takes, depending on its records, as the last ones have shown. No clock, no Spark."""

from __future__ import annotations

import statistics
from collections import deque
from dataclasses import dataclass, field

__all__ = ["BatchCost", "RecentBatches"]

_KEPT = 5
"""From how many batches the cost is determined."""


@dataclass(frozen=True)
class BatchCost:
    """The seconds that a lane's batches take: ``fixed`` for each batch, and ``per_record`` in the job's functions."""

    fixed: float
    per_record: float

    def seconds(self, records: float) -> float:
        """The seconds of a batch with this many records."""
        return self.fixed + self.per_record * records


@dataclass(frozen=True)
class _Batch:
    seconds: float
    records: int
    functions: float


@dataclass
class RecentBatches:
    """The last batches of a lane, and what they have cost."""

    _batches: deque[_Batch] = field(default_factory=lambda: deque(maxlen=_KEPT))

    def ran(self, seconds: float, records: int, functions: float | None) -> None:
        """Record a batch of ``records`` records that took ``seconds`` seconds, of which the job's ``functions`` took
        some. None: it was too short to tell, and so will be the next ones.
        """
        if functions is None:
            self._batches.clear()
        else:
            self._batches.append(_Batch(seconds, records, functions))

    @property
    def cost(self) -> BatchCost | None:
        """The cost of batches like these. None: functions took no time in them, so their duration doesn't tell how many
        records they had. A single batch that was held up counts little, and most of the records are in large batches.
        """
        records, functions = sum(each.records for each in self._batches), sum(each.functions for each in self._batches)
        if records <= 0 or functions <= 0.0:
            return None
        fixed = statistics.median(max(0.0, each.seconds - each.functions) for each in self._batches)
        return BatchCost(fixed, functions / records)
