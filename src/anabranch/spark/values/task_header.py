"""Determines the task name of each row, for a header of the output records."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from anabranch.errors import ConfigError, UsageError
from anabranch.model import names
from anabranch.model.lane import Lane
from anabranch.spark.query import ownership
from anabranch.spark.values import meta_column

__all__ = ["TaskNames", "of_lane"]


@dataclass(frozen=True)
class TaskNames:
    """The names of a lane's tasks.

    Attributes:
        by_number: a name for each number that a task can have at factor 1. If each number belongs to only one of the
            lane's tasks, the names are full names, such as ``Partition_3`` or ``Partition_3-1-8``. If a number belongs
            to several tasks, which differ in their buckets, the names, such as ``Partition_3``, lack the bucket.
        factor: 1 if ``by_number`` has full names. If the names lack the bucket, the lane's factor, because a row's task
            then depends on the row's bucket as well.
    """

    by_number: dict[int, str]
    factor: int

    def of_row(self) -> Column:
        """The name of a row's task."""
        pairs = [F.lit(each) for number, name in self.by_number.items() for each in (number, name)]
        name = F.create_map(*pairs)[meta_column.field("task")]
        if self.factor == 1:
            return name
        its = F.coalesce(meta_column.field("bucket").cast("bigint"), ownership.bucket_of_row(self.factor))
        return F.concat(name, F.lit("-"), its.cast("string"), F.lit(f"-{self.factor}"))


def of_lane(lane: Lane) -> TaskNames:
    """The names of a lane's tasks. Raises ConfigError if a user's grouper has named the tasks, and some tasks differ
    only in their buckets.
    """
    if len(lane.tasks) == len(lane.bases):
        return TaskNames(dict(zip(lane.bases, lane.tasks, strict=True)), 1)
    try:
        parts = [names.parse(task) for task in lane.tasks]
    except UsageError as error:
        raise ConfigError(
            f"the task of a record isn't known with a custom grouper and a factor above 1: {error.what}",
            "set task_header = false",
        ) from None
    return TaskNames(
        dict(zip(lane.bases, dict.fromkeys(str(part.base) for part in parts), strict=True)), parts[0].factor
    )
