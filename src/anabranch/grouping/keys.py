"""Checks whether a key's records are in one task even if they come from several streams. Joins and merges by key
require this. Also checks whether ``cogroup`` makes only a single task.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from anabranch.grouping import cogroup
from anabranch.grouping.request import Input
from anabranch.model.task import Task

__all__ = ["SeparatedKey", "SingleGroup", "apart", "single_group"]


@dataclass(frozen=True)
class SeparatedKey:
    """Two streams whose records of the same key can be in different tasks. With ``cogroup``, all records of a key would
    be in one task, and the stage would have ``cogroup_tasks`` tasks (at factor 1).
    """

    left: Input
    right: Input
    cogroup_tasks: int


@dataclass(frozen=True)
class SingleGroup:
    """A warning: at factor 1, ``cogroup`` makes a single task, because the partition counts have no common divisor
    except 1. ``counts`` pairs each stream with its partition count.
    """

    counts: tuple[tuple[str, int], ...]


def apart(tasks: Iterable[Task], keyed: Sequence[Input]) -> SeparatedKey | None:
    """The first pair of streams in ``keyed`` whose records of the same key can be in different tasks; None if there is
    no such pair.

    Producers are assumed to write each key to partition ``hash(key) mod n`` of a stream with n partitions. Under this
    assumption, partition p of one stream and partition q of another stream can have a key in common if p = q modulo the
    GCD of the two partition counts.

    Args:
        tasks: the stage's tasks, formed by any grouper.
        keyed: the streams to compare. They have the same key columns, and aren't broadcast.
    """
    owners: defaultdict[tuple[str, str, int, int], set[str]] = defaultdict(set)
    for task in tasks:
        for ssp in task.ssps:
            owners[ssp.order].add(task.name)
    buckets = sorted({bucket for *_, bucket in owners})
    for left, right in itertools.combinations(keyed, 2):
        divisor = math.gcd(left.partitions, right.partitions)
        for residue, bucket in itertools.product(range(divisor), buckets):
            sharing = [
                owners[stream.system, stream.stream, partition, bucket]
                for stream in (left, right)
                for partition in range(residue, stream.partitions, divisor)
            ]
            if any(owner != sharing[0] for owner in sharing):
                return SeparatedKey(left, right, cogroup.task_count(keyed))
    return None


def single_group(keyed: Sequence[Input]) -> SingleGroup | None:
    """The warning that ``cogroup`` makes a single task at factor 1. None if ``cogroup`` makes several tasks, or if each
    stream has only one partition.
    """
    if cogroup.task_count(keyed) > 1 or all(stream.partitions == 1 for stream in keyed):
        return None
    return SingleGroup(tuple((str(stream), stream.partitions) for stream in keyed))
