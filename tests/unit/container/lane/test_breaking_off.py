"""When a lane that is to end breaks its batch off, when it waits, and what it says of that."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from anabranch import crash_points
from anabranch.container.lane import breaking_off
from anabranch.container.lane.breaking_off import BreakOff, Verdict
from anabranch.pace.batch_cost import BatchCost
from anabranch.protocol.lane_report import BatchProgress
from anabranch.spark.query.gate import Gate
from anabranch.throttle import Throttled
from tests.unit.coordinator.helpers import lane

BREAK, LOOK, WAIT = Verdict.BREAK, Verdict.LOOK, Verdict.WAIT


@pytest.mark.parametrize(
    ("left", "spent", "waited", "now", "usual", "found"),
    [
        (58.0, 2.0, 0.0, False, 0.0, BREAK),
        (20.0, 40.0, 0.0, False, 0.0, WAIT),
        (20.0, 40.0, 0.0, True, 0.0, BREAK),
        (0.4, 0.1, 9.0, False, 0.0, WAIT),
        (0.0, 60.0, 9.0, False, 0.0, WAIT),
        (None, 0.1, 0.0, False, 0.0, LOOK),
        (None, 90.0, 0.1, False, 0.0, LOOK),
        (None, 90.0, 0.6, False, 0.0, BREAK),
        (None, 90.0, 0.6, False, 0.5, LOOK),
        (None, 90.0, 1.9, False, 0.5, LOOK),
        (None, 90.0, 2.1, False, 0.5, BREAK),
        (None, 90.0, 2.1, False, 60.0, BREAK),
        (None, 0.6, 5.0, False, 0.4, LOOK),  # a brief batch that began later and is late, as the machine is busy
        (None, 0.4, 5.0, False, 0.0, LOOK),
        (None, 0.1, 0.0, True, 0.0, BREAK),
    ],
)
def test_it_is_broken_off_if_more_is_left_than_would_be_lost(
    left: float | None, spent: float, waited: float, now: bool, usual: float, found: Verdict
) -> None:
    assert breaking_off.verdict(left, spent, waited, now, usual, gradual=True) is found


@pytest.mark.parametrize(
    ("at", "spent", "usual", "left"),
    [
        (BatchProgress(number=7, planned=10, left=12.0), 3.0, 1.0, 12.0),
        (BatchProgress(number=6, planned=10, left=12.0), 3.0, 1.0, None),
        (BatchProgress(number=7, planned=10), 3.0, 5.0, 2.0),
        (None, 3.0, 5.0, 2.0),
        (None, 3.0, 0.0, None),
    ],
)
def test_what_is_left_goes_by_the_batch_itself_and_else_by_those_before(
    at: BatchProgress | None, spent: float, usual: float, left: float | None
) -> None:
    assert breaking_off.estimated(at, 7, spent, usual) == left


@pytest.mark.parametrize(
    ("at", "left"),
    [
        (BatchProgress(number=7, planned=1000), 3.5),  # of 4.0 s, although batches have been shorter so far
        (BatchProgress(number=7, planned=1000, left=2.0), 2.0),
        (BatchProgress(number=6, planned=1000), 0.7),
        (None, 0.7),  # how many records it has isn't known
    ],
)
def test_what_is_left_of_a_batch_goes_by_its_records_until_its_own_speed_is_known(
    at: BatchProgress | None, left: float
) -> None:
    assert breaking_off.estimated(at, 7, 0.5, 1.2, BatchCost(1.0, 0.003)) == pytest.approx(left)


@pytest.mark.parametrize(
    ("usual", "left", "found"),
    [
        (0.0, None, False),
        (0.3, None, True),
        (0.9, 0.5, True),
        (0.9, 1.5, False),  # the successors' queries can start while this batch runs
        (1.5, None, False),
        (30.0, 0.5, False),
    ],
)
def test_a_closing_lane_runs_one_more_batch_only_if_that_is_brief(
    usual: float, left: float | None, found: bool
) -> None:
    assert breaking_off.is_brief(usual, left) is found


@dataclass
class Lane:
    """A lane that waits for batch 7, which it has written for 2 s."""

    left: float | None = 50.0
    usual: float = 0.0
    keeps: str = ""
    is_wanted: bool = True
    now: bool = False
    hurry: bool = False
    writing: bool = True
    at: float = 100.0
    asked: int = 0
    stayed: int = 0
    told: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.gate = Gate(clock=lambda: self.at)
        self.at -= 2.0
        self.gate.begins(7)
        self.at += 2.0

    def breaking(self) -> BreakOff:
        def stays() -> None:
            self.stayed += 1

        def keeps(number: int) -> str:
            self.asked += 1
            return self.keeps

        return BreakOff(
            self.gate,
            wanted=lambda: self.is_wanted,
            now=lambda: self.now,
            writing=lambda: self.writing,
            hurry=lambda: self.hurry,
            keeps=keeps,
            left=lambda number, spent: self.left,
            judge=lambda number, left, spent, waited, now: breaking_off.verdict(
                left, spent, waited, now, self.usual, gradual=False
            ),
            tell=Throttled(self.told.append, 1.0, lambda: self.at),
            stays=stays,
            clock=lambda: self.at,
        )


def test_a_long_batch_is_broken_off_at_once_and_nobody_is_told_that_it_is_the_last() -> None:
    its = Lane()
    ending = its.breaking()
    assert ending.due()
    assert ending.due()
    ending.decided()
    assert (ending.broken, its.stayed, its.told, its.asked) == (True, 0, [""], 1)
    assert its.gate.shut() == ""


def test_a_batch_that_is_near_its_end_is_awaited_and_told_every_second() -> None:
    its = Lane(left=1.5)
    ending = its.breaking()
    ending.decided()
    for _ in range(30):
        assert not ending.due()
        its.at += 0.1
    assert (ending.broken, its.stayed) == (False, 1)
    assert its.told[0].startswith("batch 7 isn't broken off, as this would lose 2.0 s of work: 2 s")
    assert len(its.told) in (3, 4)


def test_where_the_lane_ends_is_told_of_its_last_batch_only() -> None:
    """Successors that were started behind the batch before it would be started in vain."""
    its = Lane(left=0.3, usual=0.5)
    ending = its.breaking()
    assert not ending.due()
    assert its.stayed == 0
    its.gate.begins(8)
    ending.decided()
    assert (ending.broken, its.stayed) == (False, 1)


def test_of_a_batch_that_is_seen_what_keeps_the_lane_is_told_and_how_long() -> None:
    its = Lane()
    its.gate.passes("is being written at least once to out", exact=False)
    ending = its.breaking()
    assert not ending.due()
    assert its.told == ["batch 7 is being written at least once to out: 50 s left"]
    its.left, its.at = None, its.at + 2.0
    assert not ending.due()
    assert its.told[-1] == "batch 7 is being written at least once to out: how much is left isn't known"
    its.now = True
    assert ending.due()
    assert (ending.broken, its.told[-1]) == (True, "")


def test_others_than_the_gate_may_keep_it_and_are_asked_once_a_batch() -> None:
    its = Lane(keeps="is seen in part", now=True)
    ending = its.breaking()
    for _ in range(5):
        assert not ending.due()
    assert (its.asked, its.told) == (1, ["batch 7 is seen in part: 50 s left"])
    its.gate.begins(8)
    assert not ending.due()
    assert its.asked == 2


def test_nothing_is_broken_off_that_is_not_to_end_or_is_not_written() -> None:
    its = Lane(is_wanted=False)
    ending = its.breaking()
    assert not ending.due()
    its.is_wanted, its.writing = True, False
    assert not ending.due()
    ending.decided()
    assert (its.stayed, its.told) == (1, [])
    its.gate.check()


def test_what_is_left_unknown_is_awaited_for_a_moment() -> None:
    its = Lane(left=None)
    ending = its.breaking()
    assert not ending.due()
    assert not its.told
    its.at += 0.4
    assert not ending.due()
    its.at += 0.2
    assert ending.due()


def test_in_a_hurry_it_ends_whatever_is_seen_and_is_not_taken_back() -> None:
    its = Lane(hurry=True)
    its.gate.passes("is being published", exact=True)
    ending = its.breaking()
    assert ending.due()
    assert not ending.broken


class Folder:
    """One with a pending batch."""

    uri = "file:/lane"

    def __init__(self) -> None:
        self.files = ["offsets/6", "commits/6", "offsets/7"]

    def planned(self) -> int:
        return max(int(name[8:]) for name in self.files if name.startswith("offsets/"))

    def committed(self) -> int:
        return 6

    def note_broken(self, batch: int) -> None:
        self.files.append("broken.json")

    def take_back(self) -> None:
        self.files.remove("offsets/7")


class LaneFolders:
    """Whose outputs hold up to some batch."""

    def __init__(self, seen: int) -> None:
        self.seen = seen
        self.withdrawn_from: list[int] = []

    def withdrawn(self, lane: Any, epoch: int, *, committed: int) -> int:
        assert committed == 6
        self.withdrawn_from.append(epoch)
        return self.seen


@pytest.mark.parametrize(("seen", "taken"), [(6, True), (-1, True), (7, False)])
def test_only_what_nobody_has_seen_is_taken_back_once_nobody_can_write_it(seen: int, taken: bool) -> None:
    lane_folders, folder = LaneFolders(seen), Folder()
    assert breaking_off.taken_back(cast(Any, lane_folders), lane("0-a", epoch=3), 3, cast(Any, folder)) is taken
    assert lane_folders.withdrawn_from == [3]
    assert ("offsets/7" in folder.files) is not taken
    assert "broken.json" in folder.files


@pytest.mark.parametrize("step", crash_points.OF_BREAKS)
def test_whoever_dies_in_it_leaves_a_batch_that_is_pending_or_gone(step: str) -> None:
    """And whoever takes it up does it again, and gets there."""

    class DeadError(Exception):
        pass

    def dies(at: str, lane: str, batch: int) -> None:
        if at == step:
            raise DeadError

    lane_folders, folder = LaneFolders(6), Folder()
    with crash_points.watched(dies), pytest.raises(DeadError):
        breaking_off.taken_back(cast(Any, lane_folders), lane("0-a", epoch=3), 3, cast(Any, folder))
    assert ("offsets/7" in folder.files) is (step != crash_points.TAKEN_BACK)
    if "offsets/7" in folder.files:
        assert breaking_off.taken_back(cast(Any, lane_folders), lane("0-a", epoch=4), 4, cast(Any, folder))
    assert "offsets/7" not in folder.files


def test_a_folder_is_quiet_once_no_thread_writes_a_batch_of_it() -> None:
    folder, writing = cast(Any, Folder()), threading.Event()
    assert breaking_off.is_quiet(folder)
    breaking_off.runs(folder, writing)
    writing.set()
    assert not breaking_off.is_quiet(folder)
    assert not breaking_off.is_quiet(folder, within=0.05)
    threading.Timer(0.1, writing.clear).start()
    assert breaking_off.is_quiet(folder, within=10.0)
