"""The grouper ``partition``, the default: at factor 1, task i has partition i of every stream that has such a partition
and isn't broadcast.
"""

from __future__ import annotations

from anabranch.grouping import virtual
from anabranch.grouping.request import Request
from anabranch.model.names import TaskKind, TaskName
from anabranch.model.task import Task


def group(request: Request) -> tuple[Task, ...]:
    """The tasks of a stage. At factor 1, partition p of every stream that isn't broadcast goes to task p. All
    records of a key, from several such streams, are in one task if all these streams have the same number of
    partitions, n, and producers write each key to partition ``hash(key) mod n``.
    """
    count = max(stream.partitions for stream in request.grouped)
    return virtual.cut(
        request,
        (
            (
                TaskName(kind=TaskKind.PARTITION, number=number),
                [stream.ssp(number) for stream in request.grouped if number < stream.partitions],
            )
            for number in range(count)
        ),
    )
