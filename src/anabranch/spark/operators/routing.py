"""Determines which Spark task processes a row. All rows of a virtual task are sent to the same Spark task before Python
functions process them. This is done only if the factor is above 1, if the lane has several virtual tasks, and if
several Spark tasks can run at once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from anabranch.operators import rule
from anabranch.planning.groups import Group
from anabranch.spark.query import ownership
from anabranch.spark.values import meta_column

Virtual = tuple[int, int]
"""The number of a task at factor 1, and a bucket."""


@dataclass(frozen=True)
class Routing:
    """How the rows of a lane are distributed among Spark tasks.

    Attributes:
        virtual: the lane's virtual tasks, sorted.
        count: the number of Spark tasks. It may differ in a replay, so nothing that is written exactly once depends on
            it.
    """

    virtual: tuple[Virtual, ...]
    factor: int
    count: int

    def routed(self, rows: DataFrame) -> DataFrame:
        """The same rows, with all rows of a virtual task in one Spark task. Rows that have the same key and come from
        the same partition keep their order.
        """
        return rows.repartitionById(self.count, self._number())

    @property
    def splits(self) -> bool:
        """Whether rows of one partition go to several Spark tasks."""
        found = {(task, number) for (task, _), number in self.numbers.items()}
        return len(found) > len(self._tasks)

    @property
    def _tasks(self) -> list[int]:
        return sorted({task for task, _ in self.virtual})

    @cached_property
    def numbers(self) -> dict[Virtual, int]:
        """The number of the Spark task for each virtual task. Neighboring virtual tasks share a Spark task, so that
        only few partitions are divided among several Spark tasks.
        """
        return {each: at * self.count // len(self.virtual) for at, each in enumerate(self.virtual)}

    def _number(self) -> Column:
        tasks = self._tasks
        table = [self.numbers.get((task, bucket), 0) for task in tasks for bucket in range(self.factor)]
        place = F.array_position(_literal(tasks), meta_column.field("task")) - 1
        bucket = F.coalesce(meta_column.field("bucket"), ownership.bucket_of_row(self.factor))
        return F.get(_literal(table), (place * self.factor + bucket).cast("int"))


def _literal(numbers: list[int]) -> Column:
    """An array of any length, made by a single call to the JVM."""
    return F.from_json(F.lit(json.dumps(numbers)), "array<int>")


def over(virtual: Iterable[Virtual], factor: int, cores: int) -> Routing | None:
    """How to distribute a lane's rows among up to ``cores`` Spark tasks; None if rows stay in their Spark tasks."""
    mine = tuple(sorted(set(virtual)))
    count = min(cores, len(mine))
    return Routing(mine, factor, count) if factor > 1 and count > 1 else None


def before(group: Group) -> frozenset[int]:
    """The ids of the operators that call a function, and whose rows must be routed before the call. Rows that come from
    state or from an earlier function, with only SQL operators in between, needn't be routed: they are still in the
    Spark tasks of their virtual tasks.
    """
    there: set[int] = set()
    found: set[int] = set()
    for node in group.nodes:
        if node in group.sources:
            continue
        if rule(node).function and not rule(node).stateful:
            if node.inputs[0] not in there:
                found.add(node.id)
            there.add(node.id)
        elif rule(node).stateful or (rule(node).sql and node.inputs[0] in there):
            there.add(node.id)
    return frozenset(found)
