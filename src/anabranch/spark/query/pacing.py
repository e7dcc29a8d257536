"""How large the batches of a lane are at first, and what they aim at."""

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
"""The records of a first batch: as many as are through in a minute, if each takes a second."""
_FIRST_OF_SQL = 100_000
_AWAITED = 0.5
"""Of the target, what a batch aims at that a change must wait for. It costs no throughput that bench/backlog shows; a
quarter costs a tenth, and isn't needed."""
_BUCKETS = 1000
"""No container works on many more at once."""


@dataclass(frozen=True)
class LanePacing:
    """``remembered`` gives how many records the first batch may have, by whether it is without functions of the job's;
    0: nobody knows."""

    plan: LanePlan
    sources: LaneSources
    outputs: LaneOutputs
    remembered: Callable[[bool], int]

    @property
    def _first_rows(self) -> int:
        """The records of a first batch."""
        if not self.plan.settings.job.target_batch_seconds:
            return self._most_rows
        first = max(_FIRST, 2 * self._least_rows) if self.plan.calls_functions else _FIRST_OF_SQL
        return self.remembered(not self.plan.calls_functions) or first

    @property
    def _target_seconds(self) -> float:
        """How long a batch is to take. A change must wait for one that can't be taken back: it is to take less, unless
        it is one of SQL alone, for which its fixed time counts more."""
        target = self.plan.settings.job.target_batch_seconds or math.inf
        return target * _AWAITED if self.outputs.repeats and self.plan.calls_functions else target

    @property
    def _least_rows(self) -> int:
        """As many as it has buckets to work on at once."""
        return max(1, min(len(self.plan.lane.ssps), _BUCKETS))

    @property
    def _most_rows(self) -> int:
        return self.plan.settings.job.max_rows_per_batch * max(1, len(self.sources.all))

    def pacer(self, first: int | None = None) -> Pacer:
        """What sizes the lane's batches. ``first``: the records of the first one, if they are known."""
        job, most = self.plan.settings.job, self._most_rows
        inputs = {place_of(source): source.starts for source in self.sources.all}
        aim = BatchTarget(self._target_seconds, min(most, self._least_rows), most, self.outputs.allowed)
        return Pacer(
            self.plan.job.spark, aim, self._first_rows if first is None else first, job.max_rows_per_batch, inputs
        )


def place_of(source: Source) -> str:
    """The name of a source as a pacer knows it."""
    return name_of(source.system.offset(source.stream, "", {}))
