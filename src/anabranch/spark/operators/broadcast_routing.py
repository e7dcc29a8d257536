"""Determines which tasks of a lane get each broadcast record."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from anabranch.model.lane import Lane
from anabranch.model.ssp import SSP
from anabranch.planning.ownership import broadcasts
from anabranch.planning.ownership.buckets import NEVER, owned
from anabranch.spark.query import ownership

__all__ = ["FIRST", "BroadcastRouting"]

FIRST = 0
"""The number of the task that rejects records that are unreadable or have no key. All tasks get the same records, but
each record must be rejected only once.
"""
_ONE = "_anabranch_one"


@dataclass(frozen=True)
class BroadcastRouting:
    """Determines which virtual tasks of a lane get each record of one broadcast stream.

    In a lane without state, a record goes to every virtual task that starts at or before the record's offset. In a lane
    with state, each task of factor 1 is divided into virtual tasks, and only one of them gets the record: the one with
    the bucket of the record's key, because it has the key's state. If this virtual task belongs to another lane, that
    lane gets the record.

    Attributes:
        ssps: the stream's SSPs that the lane reads, as whole SSPs.
        key: the bytes of a record's key.
    """

    lane: Lane
    ssps: Sequence[SSP]
    key: Column

    def given(self, records: DataFrame) -> DataFrame:
        """For each record, a row for each of the lane's virtual tasks that get the record. Adds two columns. ``task``
        is the number of the task at factor 1. ``bucket`` is the bucket of the virtual task; null stands for the bucket
        of the record's key.
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
        """A condition for the records that this lane, and no other, must reject if they are unreadable: those in the
        lane's buckets of the task :data:`FIRST`, from each bucket's start offset on.
        """
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
        """Whether some tasks start at a higher offset than others."""
        return any(len(set(broadcasts.begins(self.lane, ssp).values())) > 1 for ssp in self.ssps)
