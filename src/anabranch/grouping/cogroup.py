"""The grouper ``cogroup``: at factor 1, as many tasks as the GCD of the partition counts."""

from __future__ import annotations

import math
from collections.abc import Iterable

from anabranch.grouping import virtual
from anabranch.grouping.request import Input, Request
from anabranch.model.names import TaskKind, TaskName
from anabranch.model.task import Task


def group(request: Request) -> tuple[Task, ...]:
    """The tasks of a stage. Let g be the GCD of the partition counts of the streams that aren't broadcast. At factor 1,
    partition p of each of these streams goes to task p mod g (Samza's SAMZA-71). If producers write each key to
    partition ``hash(key) mod n`` of a stream with n partitions, all records of a key are in one task.
    """
    return into(request, task_count(request.grouped))


def into(request: Request, count: int) -> tuple[Task, ...]:
    """The tasks of a stage. At factor 1, partition p of every stream that isn't broadcast goes to task p mod ``count``.
    The partition counts of these streams must be multiples of ``count``.
    """
    return virtual.cut(
        request,
        (
            (
                TaskName(kind=TaskKind.GROUP, number=number),
                [stream.ssp(p) for stream in request.grouped for p in range(number, stream.partitions, count)],
            )
            for number in range(count)
        ),
    )


def task_count(inputs: Iterable[Input]) -> int:
    """The number of tasks that ``cogroup`` makes at factor 1: the GCD of the partition counts of ``inputs``. Broadcast
    inputs must be left out of ``inputs``.
    """
    return math.gcd(*(stream.partitions for stream in inputs))
