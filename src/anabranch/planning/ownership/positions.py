"""Determines where a lane begins to read an SSP after a change, even if the change is to another factor. For each part
of the SSP's keys, the lane begins at the position that the part's former owner had reached.

Each bucket of a factor lies within one bucket of every smaller factor. So if two buckets have keys in common, one of
them has all keys of the other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from anabranch.errors import StateError
from anabranch.model.lane import Position
from anabranch.model.ssp import SSP, WHOLE

__all__ = ["Former", "FormerPosition", "KeyPart", "after", "all_at", "lowered", "overlap", "parts_of"]


@dataclass(frozen=True)
class FormerPosition:
    """The position at which a lane stopped reading one of its SSPs when the lane ended, and the lane's factor."""

    position: Position
    factor: int


class KeyPart(NamedTuple):
    """The keys of one bucket at a given factor. Bucket 0 at factor 1 has all keys."""

    factor: int
    bucket: int

    def has(self, other: KeyPart) -> bool:
        return other.factor >= self.factor and other.bucket % self.factor == self.bucket

    @property
    def halves(self) -> tuple[KeyPart, KeyPart]:
        return KeyPart(self.factor * 2, self.bucket), KeyPart(self.factor * 2, self.bucket + self.factor)

    @property
    def wider(self) -> list[KeyPart]:
        """The larger parts, at smaller factors, that contain all keys of this part. There are at most ten."""
        factors = (1 << power for power in range(self.factor.bit_length() - 1))
        return [KeyPart(factor, self.bucket % factor) for factor in factors]

    def __str__(self) -> str:
        return f"{self.bucket}/{self.factor}"


class Former:
    """The final positions of the SSPs of one partition, from which lanes continue. A partition can have a thousand SSPs
    before a change, and as many after it. So the positions are indexed only once for all SSPs of the partition.
    """

    def __init__(self, former: Iterable[FormerPosition]) -> None:
        self._at: defaultdict[KeyPart, list[int]] = defaultdict(list)
        self._within: defaultdict[KeyPart, list[KeyPart]] = defaultdict(list)
        for each in former:
            for part, offset in parts_of(each.position, each.factor):
                self._at[part].append(offset)
                if len(self._at[part]) == 1:
                    for wider in part.wider:
                        self._within[wider].append(part)

    def begin(self, ssp: SSP, factor: int, start: int) -> Position:
        """The position at which a lane begins to read an SSP, in a job model with the factor ``factor``. If the
        lane begins at different offsets for different parts of the SSP's keys, the position has an offset for each.

        Args:
            start: the offset at which to begin for keys without a former owner.

        Raises:
            StateError: two former owners had keys in common.
        """
        own = _part_of(ssp, factor)
        found: dict[KeyPart, int] = {}
        for part in (*own.wider, own, *sorted(self._within.get(own, ()))):  # coarsest first
            for offset in self._at.get(part, ()):
                common = max(own, part)
                if common in found or not found.keys().isdisjoint(common.wider):
                    raise StateError(
                        f"two lanes had the keys {common} of {ssp.whole}", "the store was damaged: restore a copy of it"
                    )
                found[common] = offset
        found |= dict.fromkeys(_gaps(own, found), start)
        return _position(ssp, own, found)


def overlap(some: Collection[KeyPart], others: Collection[KeyPart]) -> bool:
    """Whether any keys are in both collections."""
    return any(
        part in of or not of.isdisjoint(part.wider)
        for parts, of in ((some, {*others}), (others, {*some}))
        for part in parts
    )


def after(position: Position, factor: int, read: int) -> Position:
    """The position of an SSP after its partition was read up to the offset ``read``. ``position`` is the position
    before that, and ``factor`` is the factor to which the SSP's bucket belongs.
    """
    parts = {part: max(offset, read) for part, offset in parts_of(position, factor)}
    return _position(position.ssp, _part_of(position.ssp, factor), parts)


def lowered(position: Position, factor: int, to: int) -> Position:
    """An SSP's position after it is moved back to the offset ``to``. Parts of the SSP at lower offsets stay where they
    are.
    """
    parts = {part: min(offset, to) for part, offset in parts_of(position, factor)}
    return _position(position.ssp, _part_of(position.ssp, factor), parts)


def all_at(position: Position, to: Callable[[int], int]) -> Position:
    """Apply ``to`` to a position in a broadcast partition: to its offset, and to the offsets of its ``parts``."""
    least = to(position.offset)
    parts = {name: to(at) for name, at in position.parts.items()}
    return Position(ssp=position.ssp, offset=least, parts={name: at for name, at in parts.items() if at > least})


def _part_of(ssp: SSP, factor: int) -> KeyPart:
    return KeyPart(1, 0) if ssp.key_bucket == WHOLE else KeyPart(factor, ssp.key_bucket)


def parts_of(position: Position, factor: int) -> list[tuple[KeyPart, int]]:
    """The parts of an SSP's keys, each with the offset of the next record to read. ``factor`` is the factor to which
    the SSP's bucket belongs."""
    if not position.parts:
        return [(_part_of(position.ssp, factor), position.offset)]
    named = ((*map(int, name.split("/")), offset) for name, offset in position.parts.items())
    return [(KeyPart(of, bucket), offset) for bucket, of, offset in named]


def _gaps(own: KeyPart, found: Iterable[KeyPart]) -> Iterator[KeyPart]:
    """The keys of ``own`` that no part in ``found`` contains, in as few parts as possible."""
    within = [part for part in found if part.has(own) or own.has(part)]
    if not within:
        yield own
    elif not any(part.has(own) for part in within):
        for half in own.halves:
            yield from _gaps(half, within)


def _position(ssp: SSP, own: KeyPart, parts: dict[KeyPart, int]) -> Position:
    joined = _joined(own, parts)
    told = {} if len(joined) == 1 else {str(part): offset for part, offset in sorted(joined.items())}
    return Position(ssp=ssp, offset=min(joined.values()), parts=told)


def _joined(own: KeyPart, parts: dict[KeyPart, int]) -> dict[KeyPart, int]:
    """The same offsets in as few parts as possible: parts that have the same offset are merged."""
    if own in parts:
        return {own: parts[own]}
    left, right = (_joined(half, parts) for half in own.halves)
    if len(left) == len(right) == 1 and set(left.values()) == set(right.values()):
        return {own: next(iter(left.values()))}
    return {**left, **right}
