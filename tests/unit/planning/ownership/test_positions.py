"""Where SSPs begin after changes of the factor: in whole histories each message comes once, each key in order."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.errors import StateError
from anabranch.model.hashing import bucket
from anabranch.model.lane import Position
from anabranch.model.ssp import SSP
from anabranch.planning.ownership.positions import Former, FormerPosition, after, parts_of
from tests.support.cases import examples

WHOLE_SSP = SSP(system="kafka", stream="flights", partition=3)
MOST = 64


def part(number: int) -> SSP:
    return SSP(system="kafka", stream="flights", partition=3, key_bucket=number)


def left(ssp: SSP, factor: int, offset: int, **parts: int) -> FormerPosition:
    named = {name.replace("of", "/")[1:]: at for name, at in parts.items()}
    return FormerPosition(Position(ssp=ssp, offset=offset, parts=named), factor)


@pytest.mark.parametrize(
    ("ssp", "factor", "former", "wanted"),
    [
        (WHOLE_SSP, 1, [], (100, {})),
        (WHOLE_SSP, 1, [left(WHOLE_SSP, 1, 7)], (7, {})),
        (part(3), 4, [left(WHOLE_SSP, 1, 7)], (7, {})),
        (part(3), 4, [left(part(0), 2, 5), left(part(1), 2, 9)], (9, {})),
        (WHOLE_SSP, 1, [left(part(0), 2, 5), left(part(1), 2, 9)], (5, {"0/2": 5, "1/2": 9})),
        (WHOLE_SSP, 1, [left(part(0), 2, 5), left(part(1), 2, 5)], (5, {})),
        (
            part(0),
            2,
            [left(part(n), 8, 10 + n // 4) for n in range(8)],
            (10, {"0/8": 10, "2/8": 10, "4/8": 11, "6/8": 11}),
        ),
        (part(1), 2, [left(WHOLE_SSP, 1, 5, _0of2=5, _1of2=9)], (9, {})),
        (part(3), 4, [left(WHOLE_SSP, 1, 5, _0of2=5, _1of4=9, _3of8=6, _7of8=8)], (6, {"3/8": 6, "7/8": 8})),
        (WHOLE_SSP, 1, [left(part(1), 4, 5)], (5, {"0/2": 100, "1/4": 5, "3/4": 100})),
    ],
)
def test_where_it_begins(
    ssp: SSP, factor: int, former: list[FormerPosition], wanted: tuple[int, dict[str, int]]
) -> None:
    assert Former(former).begin(ssp, factor, start=100) == Position(ssp=ssp, offset=wanted[0], parts=wanted[1])


@pytest.mark.parametrize("order", [1, -1])
def test_two_owners_are_noticed_in_any_order(order: int) -> None:
    former = [left(part(0), 2, 20), left(part(0), 4, 40)][::order]
    with pytest.raises(StateError, match="two lanes had the keys 0/4 of kafka/flights/3"):
        Former(former).begin(WHOLE_SSP, 1, start=100)


def test_no_keys_have_two_owners() -> None:
    with pytest.raises(StateError, match="two lanes had the keys 3/4 of kafka/flights/3"):
        Former([left(part(1), 2, 5), left(part(3), 4, 9)]).begin(WHOLE_SSP, 1, start=0)


def test_parts_are_forgotten_once_all_have_passed_them() -> None:
    merged = Former([left(part(0), 2, 5), left(part(1), 2, 9)]).begin(WHOLE_SSP, 1, start=0)
    assert after(merged, 1, 7) == Position(ssp=WHOLE_SSP, offset=7, parts={"0/2": 7, "1/2": 9})
    assert after(merged, 1, 9) == Position(ssp=WHOLE_SSP, offset=9)
    assert after(merged, 1, 5) == merged


# Histories


@dataclass
class Lane:
    """Reads its partition from where the first of its SSPs begins, up to ``read``."""

    factor: int
    held: list[Position]
    read: int = field(init=False)

    def __post_init__(self) -> None:
        self.read = min(position.offset for position in self.held)

    def finals(self) -> list[FormerPosition]:
        return [FormerPosition(after(position, self.factor, self.read), self.factor) for position in self.held]


def takes(position: Position, factor: int, hashed: int, offset: int) -> bool:
    """Whether the owner of an SSP with that position takes a message of its partition.

    Args:
        hashed: the hash of the message's key, or its offset if the key is null.
    """
    return any(hashed % part.factor == part.bucket and offset >= at for part, at in parts_of(position, factor))


@dataclass
class World:
    """One partition, the lanes that share its buckets, and what was processed, in order."""

    keys: list[bytes | None]
    factor: int = 1
    lanes: list[Lane] = field(default_factory=lambda: [Lane(1, [Position(ssp=WHOLE_SSP, offset=0)])])
    done: list[int] = field(default_factory=list)

    def work(self, lane: int, messages: int) -> None:
        """One lane has a batch."""
        its = self.lanes[lane % len(self.lanes)]
        end = min(len(self.keys), its.read + messages)
        for offset in range(its.read, end):
            hashed = bucket(self.keys[offset], offset, MOST)
            owners = [position for position in its.held if takes(position, its.factor, hashed, offset)]
            assert len(owners) <= 1
            self.done += [offset] * len(owners)
        its.read = end

    def change(self, factor: int, lanes: int) -> None:
        former = Former(each for lane in self.lanes for each in lane.finals())
        ssps = [WHOLE_SSP] if factor == 1 else [part(number) for number in range(factor)]
        begun = [former.begin(ssp, factor, start=0) for ssp in ssps]
        count = min(lanes, factor)
        self.factor = factor
        self.lanes = [Lane(factor, begun[number::count]) for number in range(count)]

    def rewind(self, to: int) -> None:
        """A generation of its own: every SSP begins there, whatever was processed."""
        self.lanes = [
            Lane(self.factor, [Position(ssp=position.ssp, offset=to) for position in lane.held]) for lane in self.lanes
        ]


STEPS = st.one_of(
    st.tuples(st.just("work"), st.integers(0, 63), st.integers(1, 12)),
    st.tuples(st.just("change"), st.sampled_from([1, 2, 4, 8, 16, 32, 64]), st.integers(1, 6)),
    st.tuples(st.just("rewind"), st.integers(0, 40), st.just(0)),
)
KEYS = st.lists(st.none() | st.sampled_from([b"%d" % number for number in range(40)]), min_size=1, max_size=40)


@examples(2000)
@given(keys=KEYS, steps=st.lists(STEPS, max_size=40))
def test_every_history_processes_each_message_once_and_each_key_in_order(
    keys: list[bytes | None], steps: list[tuple[str, int, int]]
) -> None:
    world, times = World(keys), Counter(range(len(keys)))
    since = 0  # the last rewind
    for what, first, second in steps:
        if what == "work":
            world.work(first, second)
        elif what == "change":
            world.change(first, second)
        else:
            to, since = min(first, len(keys)), len(world.done)
            world.rewind(to)
            times = Counter(world.done) + Counter(range(to, len(keys)))  # what lies before it is left as it is
        _check_order(world, keys, since)
    for lane in range(len(world.lanes)):
        world.work(lane, len(keys))
    assert Counter(world.done) == times
    _check_order(world, keys, since)


def _check_order(world: World, keys: list[bytes | None], since: int) -> None:
    last: dict[bytes, int] = {}
    for offset in world.done[since:]:
        key = keys[offset]
        if key is not None:
            assert last.get(key, -1) < offset
            last[key] = offset
