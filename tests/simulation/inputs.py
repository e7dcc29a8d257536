"""What jobs read: partitions without end, of messages with keys, some one for all tasks; and what was processed."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from random import Random

from anabranch.model.hashing import bucket
from anabranch.model.lane import Lane, Rewind
from anabranch.model.ssp import SSP, wholes
from anabranch.planning.ownership import broadcasts
from anabranch.planning.ownership.buckets import NEVER, floors, owned
from tests.simulation.invariants import Broken

FINEST = 8
"""The largest factor that a job is given."""
_KEYS = [f"key-{number}".encode() for number in range(14)]
_MESSAGES = 1500
_BUCKETS = [bucket(key, 0, FINEST) for key in _KEYS]


class Partition:
    """``keys`` and their ``buckets`` (of the largest factor) by offset; ``before``: where the key was last."""

    def __init__(self, number: int) -> None:
        self.keys = Random(number).choices(range(len(_KEYS)), k=_MESSAGES)
        self.buckets = [_BUCKETS[key] for key in self.keys]
        last: dict[int, int] = {}
        self.before = []
        for offset, key in enumerate(self.keys):
            self.before.append(last.get(key, -1))
            last[key] = offset


AT_FIRST = 2
"""The most partitions that the input of a job has at first."""
PARTITIONS = [Partition(number) for number in range(4 * AT_FIRST)]
BROADCAST = Partition(4 * AT_FIRST)
RULES = 10
"""Stands for the number of the broadcast partition. In state it is there for each task, whose number is added."""


def number_of(ssp: SSP) -> int:
    """The partition of an SSP; :data:`RULES` of the broadcast."""
    return RULES if ssp.stream == "rules" else ssp.partition


def _partition(number: int) -> Partition:
    return PARTITIONS[number] if number < RULES else BROADCAST


Ranges = dict[int, tuple[int, int]]
"""By partition, the offsets of a batch: from, and up to (not with) this one."""
Records = list[tuple[int, int]]
"""Partitions and offsets."""
Given = list[tuple[int, range, int]]
"""Of a broadcast: the task at factor 1, its buckets (of the largest factor) that one virtual task is, and an offset."""


class Share:
    """The records that are a lane's own. ``begins``: by partition, where it begins to read.

    ``cells``: the partitions and buckets (of the largest factor) that it has.
    """

    def __init__(self, lane: Lane) -> None:
        self.begins = {number_of(ssp): 0 for ssp in (*wholes(lane.ssps), *lane.broadcast)} | _begins(lane)
        self._factor = lane.factor
        self._state = owned(lane) if lane.broadcast and lane.stateful else {}
        self._tasks = (
            {} if lane.stateful else {t: at for ssp in lane.broadcast for t, at in broadcasts.begins(lane, ssp).items()}
        )
        self._floors = {whole.partition: its for whole, its in floors(lane).items()}
        self.cells = frozenset(
            (partition, cell)
            for partition, its in self._floors.items()
            for cell in range(FINEST)
            if its[cell % len(its)] != NEVER
        )

    @property
    def kept(self) -> frozenset[tuple[int, int]]:
        """The cells, and those that state has of the broadcast."""
        shared = (
            (RULES + number, cell)
            for number, mine in self._state.items()
            for cell in range(FINEST)
            if cell % self._factor in mine
        )
        return self.cells.union(shared)

    def of(self, ranges: Ranges) -> Records:
        found = []
        for partition, (start, end) in ranges.items():
            if partition == RULES:
                found += [
                    (RULES + n, o) for o in range(start, end) for n, mine in self._state.items() if self._has(mine, o)
                ]
                continue
            buckets, begins = PARTITIONS[partition].buckets, self._floors[partition]
            found += [(partition, o) for o in range(start, end) if o >= begins[buckets[o] % len(begins)]]
        return found

    def given(self, ranges: Ranges) -> Given:
        """Which records of a broadcast the tasks of a lane without state are given."""
        offsets = range(*ranges.get(RULES, (0, 0)))
        tasks = [(number, range(mine, FINEST, self._factor), at) for (number, mine), at in self._tasks.items()]
        return [(number, cells, o) for o in offsets for number, cells, at in tasks if o >= at]

    def _has(self, mine: Collection[int], offset: int) -> bool:
        return BROADCAST.buckets[offset] % self._factor in mine


def _begins(lane: Lane) -> dict[int, int]:
    found: dict[int, int] = {}
    for position in lane.starting:
        number = number_of(position.ssp)
        found[number] = min(position.offset, found.get(number, position.offset))
    return found


Last = dict[tuple[int, int], int]
"""By partition and key, the offset of its last message that was processed."""


def follow(last: Last, records: Records, who: str, name: str) -> None:
    """Raises Broken unless each record is the very next one of its key."""
    for number, offset in records:
        partition = _partition(number)
        at, before = (number, partition.keys[offset]), partition.before[offset]
        if last.get(at, -1) != before:
            raise Broken(name, f"{who}: offset {offset} of partition {number} comes after {last.get(at)}, not {before}")
        last[at] = offset


@dataclass
class Processed:
    """What each group of each job has put out. ``_before``: of each rewound lane's keys, where they were before it."""

    _last: dict[tuple[str, str, str], Last] = field(default_factory=dict)
    _before: dict[str, Last] = field(default_factory=dict)
    _given: dict[tuple[str, str, str, int, int], int] = field(default_factory=dict)

    def add(self, lane: Lane, records: Records, given: Given) -> None:
        group = lane.job, lane.stage, lane.group
        follow(self._last.setdefault(group, {}), records, lane.id, "each-once")
        for number, cells, offset in given:
            far = [self._given.get((*group, number, cell), 0) for cell in cells]
            if min(far) != offset:
                raise Broken("each-once", f"{lane.id}: task {number} is given {offset} of the broadcast, after {far}")
            self._given |= {
                (*group, number, cell): offset + 1 for cell, at in zip(cells, far, strict=True) if at == offset
            }

    def rewind(self, lane: Lane, cells: Collection[tuple[int, int]]) -> Last:
        """A rewound lane begins, or one that takes it back: of its keys, what comes next is another message. Gives
        where they are then."""
        last = self._last.setdefault((lane.job, lane.stage, lane.group), {})
        assert lane.rewind is not None
        its = {at: last.get(at, -1) for at in _keys(cells)}
        if lane.rewind.back:
            before = self._before.get(lane.predecessors[0], {})
            last |= {at: offset if lane.stateful else max(offset, its[at]) for at, offset in before.items()}
        elif lane.id not in self._before:
            self._before[lane.id] = its
            last |= lowered(its, lane.rewind)
        return {at: last.get(at, -1) for at in its}


def lowered(last: Last, rewind: Rewind) -> Last:
    """Where keys are whose messages come again."""
    to = {SSP.parse(text).partition: offset for text, offset in rewind.to.items()}
    found = {}
    for (number, key), offset in last.items():
        at = offset
        while at >= to.get(number, _MESSAGES):
            at = PARTITIONS[number].before[at]
        found[number, key] = at
    return found


def _keys(cells: Collection[tuple[int, int]]) -> list[tuple[int, int]]:
    """Partitions and keys."""
    numbers = sorted({number for number, _ in cells})
    return [(number, key) for number in numbers for key in range(len(_KEYS)) if (number, _BUCKETS[key]) in cells]


class Source:
    """The stream of all jobs, as a coordinator sees it."""

    @property
    def all(self) -> tuple[Source]:
        return (self,)

    def named(self, system: str) -> Source:
        return self

    def readers(self) -> None:
        """The stream keeps all of its records."""

    def starts(self, stream: str) -> dict[int, int]:
        return dict.fromkeys(range(len(PARTITIONS)), 0)

    def high_watermarks(self, stream: str) -> dict[int, int]:
        return dict.fromkeys(range(len(PARTITIONS)), _MESSAGES // 20)

    def ends(self, stream: str) -> dict[int, int]:
        return dict.fromkeys(range(len(PARTITIONS)), _MESSAGES)
