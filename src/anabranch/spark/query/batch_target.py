"""Determines the size of a lane's batches."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from anabranch.pace.controller import BatchTarget
from anabranch.spark.query.outputs import LaneOutputs
from anabranch.spark.query.pacer import Pacer, name_of
from anabranch.spark.query.plan import LanePlan
from anabranch.spark.query.source import Source
from anabranch.spark.query.sources import LaneSources

__all__ = ["LaneBatchTarget", "place_of"]

_FIRST = 50
"""The limit on the number of records in the first batch of a lane that calls functions, if no earlier batch is known
and the lane has few SSPs. (``[job] max_rows_per_batch`` may be lower.) Even if each of these records takes a second,
the batch takes less than a minute.
"""
_FIRST_OF_SQL = 100_000
_AWAITED = 0.5
"""The fraction of ``target_batch_seconds`` that a batch should take if changes must wait for it. According to
bench/backlog, one half costs no throughput, and a quarter would cost a tenth of the throughput.
"""
_BUCKETS = 1000
"""The maximum number of buckets that count toward the size of a batch. (No container works on many more at once.)"""


@dataclass(frozen=True)
class LaneBatchTarget:
    """Determines the size of a lane's first batch, and the target duration of later batches.

    Attributes:
        remembered: returns how many records the first batch may have, according to earlier batches; 0 if this is
            unknown. Its argument says whether the lane consists only of SQL.
    """

    plan: LanePlan
    sources: LaneSources
    outputs: LaneOutputs
    remembered: Callable[[bool], int]

    @property
    def _first_rows(self) -> int:
        if not self.plan.settings.job.target_batch_seconds:
            return self._most_rows
        first = max(_FIRST, 2 * self._least_rows) if self.plan.calls_functions else _FIRST_OF_SQL
        return self.remembered(not self.plan.calls_functions) or first

    @property
    def _target_seconds(self) -> float:
        """How long a batch should take: ``[job] target_batch_seconds``; infinite without this setting.

        Some outputs would get a batch's rows twice if the batch ran again. If the lane has such outputs, a batch can't
        always be broken off, so a change may have to wait for the batch. To shorten this wait, the target of a lane
        that calls functions is multiplied by :data:`_AWAITED`. A lane that consists only of SQL keeps the full target,
        because fixed costs take up much of the time of each batch.
        """
        target = self.plan.settings.job.target_batch_seconds or math.inf
        return target * _AWAITED if self.outputs.repeats and self.plan.calls_functions else target

    @property
    def _least_rows(self) -> int:
        """The smallest limit on the number of records in a batch: one record for each of the lane's SSPs, because
        functions work on several buckets at the same time. At most :data:`_BUCKETS` SSPs count.
        """
        return max(1, min(len(self.plan.lane.ssps), _BUCKETS))

    @property
    def _most_rows(self) -> int:
        return self.plan.settings.job.max_rows_per_batch * max(1, len(self.sources.all))

    def pacer(self, first: int | None = None) -> Pacer:
        """A new pacer for the lane's batches. ``first`` is the number of records in the first batch, or None to
        determine it here.
        """
        job, most = self.plan.settings.job, self._most_rows
        inputs = {place_of(source): source.starts for source in self.sources.all}
        aim = BatchTarget(self._target_seconds, min(most, self._least_rows), most, self.outputs.allowed)
        return Pacer(
            self.plan.job.spark, aim, self._first_rows if first is None else first, job.max_rows_per_batch, inputs
        )


def place_of(source: Source) -> str:
    """The pacer's name for a source."""
    return name_of(source.system.offset(source.stream, "", {}))
