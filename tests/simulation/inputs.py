"""What all jobs read: partitions without end, of messages with keys; and which of them were processed."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from anabranch.grouping.ownership import NEVER, floors
from anabranch.model.hashing import bucket
from anabranch.model.lane import Lane
from anabranch.model.ssp import wholes
from tests.simulation.invariants import Broken

FINEST = 8
"""The largest factor that a job is given."""
_KEYS = [f"key-{number}".encode() for number in range(14)]
_MESSAGES = 1500


class Partition:
    """``keys`` and their ``buckets`` (of the largest factor) by offset; ``before``: where the key was last."""

    def __init__(self, number: int) -> None:
        self.keys = Random(number).choices(range(len(_KEYS)), k=_MESSAGES)
        buckets = [bucket(key, 0, FINEST) for key in _KEYS]
        self.buckets = [buckets[key] for key in self.keys]
        last: dict[int, int] = {}
        self.before = []
        for offset, key in enumerate(self.keys):
            self.before.append(last.get(key, -1))
            last[key] = offset


PARTITIONS = [Partition(number) for number in range(2)]

Ranges = dict[int, tuple[int, int]]
"""By partition, the offsets of a batch: from, and up to (not with) this one."""
Records = list[tuple[int, int]]
"""Partitions and offsets."""


class Share:
    """The records that are a lane's own. ``begins``: by partition, where it begins to read.

    ``cells``: the partitions and buckets (of the largest factor) that it has.
    """

    def __init__(self, lane: Lane) -> None:
        self.begins = {whole.partition: 0 for whole in wholes(lane.ssps)} | _begins(lane)
        self._floors = {whole.partition: floors(lane, whole) for whole in dict.fromkeys(wholes(lane.ssps))}
        self.cells = frozenset(
            (partition, cell)
            for partition, its in self._floors.items()
            for cell in range(FINEST)
            if its[cell % len(its)] != NEVER
        )

    def of(self, ranges: Ranges) -> Records:
        found = []
        for partition, (start, end) in ranges.items():
            buckets, begins = PARTITIONS[partition].buckets, self._floors[partition]
            found += [(partition, o) for o in range(start, end) if o >= begins[buckets[o] % len(begins)]]
        return found


def _begins(lane: Lane) -> dict[int, int]:
    found: dict[int, int] = {}
    for position in lane.starting:
        number = position.ssp.partition
        found[number] = min(position.offset, found.get(number, position.offset))
    return found


Last = dict[tuple[int, int], int]
"""By partition and key, the offset of its last message that was processed."""


def follow(last: Last, records: Records, who: str, name: str) -> None:
    """Raises Broken unless each record is the very next one of its key."""
    for number, offset in records:
        partition = PARTITIONS[number]
        at, before = (number, partition.keys[offset]), partition.before[offset]
        if last.get(at, -1) != before:
            raise Broken(name, f"{who}: offset {offset} of partition {number} comes after {last.get(at)}, not {before}")
        last[at] = offset


@dataclass
class Processed:
    """What each group of each job has put out."""

    _last: dict[tuple[str, str, str], Last] = field(default_factory=dict)

    def add(self, lane: Lane, records: Records) -> None:
        follow(self._last.setdefault((lane.job, lane.stage, lane.group), {}), records, lane.id, "each-once")
