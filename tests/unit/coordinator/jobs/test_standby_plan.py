"""Who keeps which standby, and what becomes of those that are there: of lanes that run, rest, move, end."""

from __future__ import annotations

import pytest

from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.jobs import standby_plan
from anabranch.coordinator.jobs.standby_plan import Member
from anabranch.coordinator.store.store import Store
from anabranch.model.lane import Lane, LaneState
from anabranch.protocol.container import Heartbeat, Registration
from anabranch.protocol.standby import StandbyOrder, StandbyReport
from tests.unit.coordinator.helpers import Clock, Seat, lane, plan, report, wanted

FIRST, SECOND = "0-a", "0-b"


def running(name: str, **fields: object) -> Lane:
    return lane(name, stateful=True, **{"folder_epoch": 3, "state": LaneState.RUNNING, **fields})


def has(name: str, number: int = 0, epoch: int = 3, **fields: object) -> StandbyReport:
    return StandbyReport(lane=name, epoch=epoch, number=number, **fields)


def told(
    lanes: list[Lane],
    runners: dict[str, str],
    members: dict[str, Member],
    count: int = 1,
    moving: dict[str, list[str]] | None = None,
) -> dict[str, list[tuple[str, int, int, str]]]:
    found = standby_plan.told({each.id: each for each in lanes}, runners, members, count, moving or {})
    return {name: [(each.lane, each.epoch, each.number, each.to) for each in its] for name, its in found.items()}


def test_each_keeps_the_others() -> None:
    members = {"p": Member(rack="a"), "q": Member(rack="b")}
    found = told([running(FIRST), running(SECOND)], {FIRST: "p", SECOND: "q"}, members)
    assert found == {"p": [(SECOND, 3, 0, "refresh")], "q": [(FIRST, 3, 0, "refresh")]}


def test_one_that_stands_by_keeps_those_of_the_only_container() -> None:
    found = told([running(FIRST)], {FIRST: "p"}, {"p": Member(rack=None, container="c"), "w": Member(rack=None)})
    assert found == {"p": [], "w": [(FIRST, 3, 0, "refresh")]}


def test_another_rack_comes_first() -> None:
    members = {"p": Member(rack="a"), "q": Member(rack="a"), "r": Member(rack="b")}
    assert told([running(FIRST)], {FIRST: "p"}, members)["r"] == [(FIRST, 3, 0, "refresh")]


def test_who_has_a_copy_goes_on_with_it_and_one_that_is_anothers_now_is_forgotten() -> None:
    members = {"p": Member(rack=None), "q": Member(rack=None, copies=(has(FIRST, 1),)), "r": Member(rack=None)}
    found = told([running(FIRST)], {FIRST: "p"}, members, count=2)
    assert found == {"p": [], "q": [(FIRST, 3, 1, "refresh")], "r": [(FIRST, 3, 0, "refresh")]}
    members = {"p": Member(rack="a", copies=(has(FIRST),)), "q": Member(rack="b")}
    assert told([running(FIRST)], {FIRST: "p"}, members) == {"p": [], "q": [(FIRST, 3, 0, "refresh")]}


@pytest.mark.parametrize(
    ("its", "to"),
    [
        (running(FIRST, state=LaneState.CLOSED), "remove"),
        (running(FIRST, folder_epoch=4), "remove"),
        (running(FIRST, abandoned=True), "hold"),
        (running(FIRST, state=LaneState.FAILED), "hold"),
    ],
)
def test_a_copy_of_a_lane_that_does_not_run(its: Lane, to: str) -> None:
    found = told([its], {}, {"q": Member(rack=None, copies=(has(FIRST),))})
    assert found == {"q": [(FIRST, 3, 0, to)]}


@pytest.mark.parametrize(
    ("follower", "to"),
    [
        ({"folder_epoch": 0, "state": LaneState.PLANNED}, "hold"),
        ({"folder_epoch": 5, "state": LaneState.PLANNED}, "remove"),
        ({"folder_epoch": 0, "state": LaneState.FAILED}, "remove"),
    ],
)
def test_a_copy_of_a_closed_lane_is_held_until_all_that_follow_have_folders(
    follower: dict[str, object], to: str
) -> None:
    closed = running(FIRST, state=LaneState.CLOSED)
    follows = {"predecessors": (FIRST,)}
    lanes = [closed, running(SECOND, folder_epoch=5, **follows), running("0-c", **follows, **follower)]
    assert told(lanes, {}, {"q": Member(rack=None, copies=(has(FIRST),))}) == {"q": [(FIRST, 3, 0, to)]}


def test_no_more_standbys_than_are_asked_for_are_left() -> None:
    members = {"p": Member(rack=None), "q": Member(rack=None, copies=(has(FIRST), has(FIRST, 1)))}
    for count, first in ((1, "refresh"), (0, "remove")):
        found = told([running(FIRST)], {FIRST: "p"}, members, count)
        assert found["q"] == [(FIRST, 3, 0, first), (FIRST, 3, 1, "remove")]


def test_of_a_lane_that_moves_each_that_follows_gets_one() -> None:
    members = {"p": Member(rack=None), "q": Member(rack=None)}
    found = told([running(FIRST)], {FIRST: "p"}, members, moving={FIRST: ["p", "q"]})
    assert found == {"p": [(FIRST, 3, 0, "refresh")], "q": [(FIRST, 3, 1, "refresh")]}


@pytest.mark.parametrize(
    ("copies", "warm"),
    [
        ([], False),
        ([has(FIRST, 0, batch=95), has(FIRST, 1, batch=90)], True),
        ([has(FIRST, 0, batch=95), has(FIRST, 1, batch=89)], False),
        ([has(FIRST, 0, batch=95), has(FIRST, 1)], False),
        ([has(FIRST, 0, batch=95), has(FIRST, 1, error="the disk is full")], True),
        ([has(FIRST, 0, batch=95), has(FIRST, 1, epoch=2, batch=95)], False),
        ([has(FIRST, 0, batch=95), has(SECOND, 1, batch=95)], False),
    ],
)
def test_a_lane_may_end_once_there_is_a_standby_for_each_that_follows(copies: list[StandbyReport], warm: bool) -> None:
    assert standby_plan.is_warm(running(FIRST), 100, 2, [Member(rack=None, copies=tuple(copies))]) is warm


class Keeper(Seat):
    """A container that says what standbys it keeps."""

    copies: tuple[StandbyReport, ...] = ()

    def hear(self, *reports: object) -> tuple[StandbyOrder, ...]:
        self.number += 1
        who = {"container": self.me.container, "epoch": self.me.epoch}
        beat = Heartbeat(**who, number=self.number, seen=self.seen, lanes=reports, copies=self.copies)
        answer = self.coordinator.heartbeat(beat)
        self.told = self.told if answer.same else answer
        self.seen = self.told.revision
        return self.told.copies


def test_containers_hear_of_standbys_and_status_tells_how_far_behind_they_are() -> None:
    clock = Clock()
    coordinator = Coordinator(Store("sqlite://"), clock, grace=2.0)
    lanes = (lane(FIRST, stateful=True), lane(SECOND, stateful=True, seat="1"))
    coordinator.start(plan(lanes=lanes, settings={"assignment": {"standbys": 1}}))
    first, second = Keeper(coordinator), Keeper(coordinator, seat="1", pid=2)
    mine = report(FIRST, "running", folder_epoch=first.me.epoch, batch=7)
    theirs = report(SECOND, "running", folder_epoch=second.me.epoch, batch=7)
    first.hear(mine)
    assert second.hear(theirs) == (StandbyOrder(lane=FIRST, epoch=first.me.epoch, number=0),)
    assert first.hear(mine) == (StandbyOrder(lane=SECOND, epoch=second.me.epoch, number=0),)
    assert coordinator.status("delays").copies == ()
    second.copies = (has(FIRST, epoch=first.me.epoch),)
    second.hear(theirs)
    assert coordinator.status("delays").copies[0].behind is None
    second.copies = (has(FIRST, epoch=first.me.epoch, batch=5),)
    assert second.hear(theirs) == (StandbyOrder(lane=FIRST, epoch=first.me.epoch, number=0),)
    (told,) = coordinator.status("delays").copies
    assert (told.lane, told.container, told.behind) == (FIRST, second.me.container, 2)
    clock.at += 11
    second.hear(theirs)
    clock.at += 2
    coordinator.tick()  # the first is silent for too long: what there is of it is left as it is
    assert second.hear(theirs) == (StandbyOrder(lane=FIRST, epoch=first.me.epoch, number=0, to="hold"),)


def test_one_that_stands_by_is_told_and_heard() -> None:
    clock = Clock()
    coordinator = Coordinator(Store("sqlite://"), clock, grace=2.0)
    coordinator.start(plan(lanes=(lane(FIRST, stateful=True),), settings={"assignment": {"standbys": 1}}))
    first = Keeper(coordinator)
    first.hear(report(FIRST, "running", folder_epoch=first.me.epoch, batch=7))
    asking = Registration(job="delays", execution="warm", host="here", pid=9, rack="b")
    assert coordinator.register(asking).copies == ()
    coordinator.tick()
    copy = StandbyOrder(lane=FIRST, epoch=first.me.epoch, number=0)
    its = has(FIRST, epoch=first.me.epoch, batch=6)
    asking = Registration(job="delays", execution="warm", host="here", pid=9, rack="b", copies=(its,))
    assert coordinator.register(asking).copies == (copy,)
    (told,) = coordinator.status("delays").copies
    assert (told.container, told.rack, told.behind) == ("", "b", 1)
    second = Registration(job="delays", execution="other", host="here", pid=10, rack="c")
    clock.at += 8
    first.hear(report(FIRST, "running", folder_epoch=first.me.epoch, batch=8))
    assert coordinator.register(second).copies == ()
    clock.at += 3  # the one that stood by is gone, and wasn't heard for a lease
    coordinator.tick()
    assert coordinator.register(second).copies == (copy,)


def test_without_standbys_nobody_hears_of_any() -> None:
    coordinator = Coordinator(Store("sqlite://"), Clock(), grace=2.0)
    coordinator.start(plan(lanes=(lane(FIRST, stateful=True), lane(SECOND, stateful=True, seat="1"))))
    first, second = Keeper(coordinator), Keeper(coordinator, seat="1", pid=2)
    first.hear(report(FIRST, "running", folder_epoch=first.me.epoch))
    assert second.hear(report(SECOND, "running", folder_epoch=second.me.epoch)) == ()
    assert wanted(second.told) == [SECOND]
