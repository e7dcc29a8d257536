"""The size of a lane's first batches, and the target for later ones."""

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

__all__ = ["LanePacing", "place_of"]

_FIRST = 50
"""The number of records in a first batch: as many as are done within a minute if each takes a second."""
_FIRST_OF_SQL = 100_000
_AWAITED = 0.5
"""The share of the target for a batch for which a change must wait. bench/backlog shows no loss of throughput. A
quarter would cost a tenth of the throughput, and isn't needed.
"""
_BUCKETS = 1000
"""The upper limit for this number, because no container works on many more buckets at once."""


@dataclass(frozen=True)
class LanePacing:
    """``remembered`` returns how many records the first batch may have, given whether it calls no functions of the job;
    0: unknown.
    """

    plan: LanePlan
    sources: LaneSources
    outputs: LaneOutputs
    remembered: Callable[[bool], int]

    @property
    def _first_rows(self) -> int:
        """The number of records in a first batch."""
        if not self.plan.settings.job.target_batch_seconds:
            return self._most_rows
        first = max(_FIRST, 2 * self._least_rows) if self.plan.calls_functions else _FIRST_OF_SQL
        return self.remembered(not self.plan.calls_functions) or first

    @property
    def _target_seconds(self) -> float:
        """How long a batch should take. A change must wait for a batch that can't be broken off, so such a batch should
        take less time, unless it consists only of SQL, for which its fixed time counts more.
        """
        target = self.plan.settings.job.target_batch_seconds or math.inf
        return target * _AWAITED if self.outputs.repeats and self.plan.calls_functions else target

    @property
    def _least_rows(self) -> int:
        """At least as many rows as there are buckets to work on at once."""
        return max(1, min(len(self.plan.lane.ssps), _BUCKETS))

    @property
    def _most_rows(self) -> int:
        return self.plan.settings.job.max_rows_per_batch * max(1, len(self.sources.all))

    def pacer(self, first: int | None = None) -> Pacer:
        """The pacer of the lane's batches. ``first``: the number of records in the first one, if it is known."""
        job, most = self.plan.settings.job, self._most_rows
        inputs = {place_of(source): source.starts for source in self.sources.all}
        aim = BatchTarget(self._target_seconds, min(most, self._least_rows), most, self.outputs.allowed)
        return Pacer(
            self.plan.job.spark, aim, self._first_rows if first is None else first, job.max_rows_per_batch, inputs
        )


def place_of(source: Source) -> str:
    """The pacer's name for a source."""
    return name_of(source.system.offset(source.stream, "", {}))
