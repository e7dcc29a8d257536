"""How long a batch takes, depending on its records, as the last one has shown. No clock, no Spark."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["BatchCost", "cost_of"]


@dataclass(frozen=True)
class BatchCost:
    """The seconds that a lane's batches take: ``fixed`` for each batch, and ``per_record`` in the job's functions."""

    fixed: float
    per_record: float

    def seconds(self, records: float) -> float:
        """The seconds of a batch with this many records."""
        return self.fixed + self.per_record * records


def cost_of(seconds: float, records: int, functions: float) -> BatchCost | None:
    """The cost of batches like the last one, which had this many ``records`` and took this many ``seconds``, of which
    the job's ``functions`` took some. None: functions took no time, or it isn't known how much, so the duration of
    batches doesn't tell how many records they had.
    """
    if records <= 0 or functions <= 0.0 or seconds <= 0.0:
        return None
    functions = min(functions, seconds)
    return BatchCost(seconds - functions, functions / records)
