"""Which of its tasks get a broadcast record in a lane: all of them, each from its own start on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from anabranch.grouping import broadcasts
from anabranch.grouping.ownership import NEVER, owned
from anabranch.model.lane import Lane
from anabranch.model.ssp import SSP
from anabranch.spark.query import ownership

__all__ = ["FIRST", "BroadcastRouting"]

FIRST = 0
"""The number of the task that rejects records that are unreadable or have no key, for all tasks."""
_ONE = "_anabranch_one"


@dataclass(frozen=True)
class BroadcastRouting:
    """A lane's broadcast routing. ``ssps``: the partitions of one broadcast stream; ``key``: the bytes of a record's
    key.

    Without state, a record goes to each virtual task. State belongs to a key, and thus to one bucket. So, with state, a
    record is processed once for each task at factor 1, in the virtual task that has the bucket of the record's key.
    """

    lane: Lane
    ssps: Sequence[SSP]
    key: Column

    def given(self, records: DataFrame) -> DataFrame:
        """A row for each task that gets the record: ``task``, its number at factor 1, and ``bucket``, null for the
        key's own bucket.
        """
        one = "task int, bucket int, begins array<bigint>"
        every = F.from_json(F.lit(json.dumps(self._tasks)), f"array<struct<{one}>>")
        rows = records.select("*", F.explode(every).alias(_ONE))
        if self.lane.stateful:
            rows = self._of_own_keys(rows)
        elif self._is_uneven:
            at = F.array_position(F.array(*[F.lit(ssp.partition) for ssp in self.ssps]), F.col("partition"))
            rows = rows.where(F.col("offset") >= F.element_at(F.col(f"{_ONE}.begins"), at.cast("int")))
        given = [F.col(f"{_ONE}.{name}").alias(name) for name in ("task", "bucket")]
        return rows.select(*[F.col(name) for name in records.columns], *given)

    def first(self) -> Column:
        """Whether the lane rejects this record if it is unreadable. Only the first of all tasks does."""
        known = {ssp.partition: broadcasts.floors(self.lane, ssp, FIRST) for ssp in self.ssps}
        if all(at == NEVER for each in known.values() for at in each):
            return F.lit(False)
        return ownership.taken(known, ownership.of_key(self.key, F.col("offset")))

    def _of_own_keys(self, rows: DataFrame) -> DataFrame:
        mine = owned(self.lane)
        if all(len(buckets) == self.lane.factor for buckets in mine.values()):
            return rows
        hashed = ownership.of_key(self.key, F.col("offset"))
        return rows.where(ownership.of_tasks(mine, self.lane.factor, F.col(f"{_ONE}.task"), hashed))

    @cached_property
    def _tasks(self) -> list[dict[str, Any]]:
        if self.lane.stateful:
            return [{"task": number} for number in sorted(owned(self.lane))]
        by_ssp = [broadcasts.begins(self.lane, ssp) for ssp in self.ssps]
        named = {number: {"bucket": number[1]} if self.lane.factor > 1 else {} for number in by_ssp[0]}
        return [
            {"task": number[0], **bucket, **({"begins": [each[number] for each in by_ssp]} if self._is_uneven else {})}
            for number, bucket in named.items()
        ]

    @cached_property
    def _is_uneven(self) -> bool:
        """Whether some tasks begin later than others."""
        return any(len(set(broadcasts.begins(self.lane, ssp).values())) > 1 for ssp in self.ssps)
