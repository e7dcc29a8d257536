"""Lanes that are prepared before they may begin."""

from __future__ import annotations

import threading

import msgspec
import pytest

from anabranch.container.preparing import Preparations
from anabranch.errors import AnabranchError
from anabranch.model.lane import Lane
from tests.unit.coordinator.helpers import lane


def test_a_lane_waits_while_its_outputs_are_taken_and_they_are_taken_once() -> None:
    go, took = threading.Event(), list[str]()

    def take(each: Lane) -> None:
        assert go.wait(10)
        took.append(each.id)

    preparations = Preparations(take)
    coming = lane("0-a", epoch=3)
    preparations.begin([coming])
    preparations.begin([coming])
    threading.Timer(0.05, go.set).start()
    assert preparations.taken(msgspec.structs.replace(coming, folder_epoch=3))
    assert took == ["0-a"]


@pytest.mark.parametrize("epoch", [2, 4])
def test_what_was_taken_under_another_epoch_is_not_taken(epoch: int) -> None:
    preparations = Preparations(lambda _: None)
    preparations.begin([lane("0-a", epoch=3)])
    assert not preparations.taken(lane("0-a", epoch=epoch))


def test_a_lane_whose_outputs_could_not_be_taken_takes_them_itself() -> None:
    def take(each: Lane) -> None:
        raise AnabranchError("the broker isn't there", "start it")

    preparations = Preparations(take)
    preparations.begin([lane("0-a", epoch=3)])
    assert not preparations.taken(lane("0-a", epoch=3))


def test_it_is_under_way_until_it_has_ended_well_or_not() -> None:
    go, told = threading.Event(), threading.Event()

    def take(each: Lane) -> None:
        assert go.wait(10)
        raise AnabranchError("the broker isn't there", "start it")

    preparations = Preparations(take, told.set)
    coming = [lane("0-a", epoch=3), lane("0-b", epoch=3)]
    assert not preparations.under_way(coming)
    preparations.begin(coming[:1])
    assert preparations.under_way(coming)
    assert not preparations.under_way(coming[1:])
    go.set()
    assert told.wait(10)
    assert not preparations.under_way(coming)


def test_what_was_prepared_is_kept_as_long_as_its_lane_is_coming_or_wanted() -> None:
    preparations = Preparations(lambda _: None, foresee=lambda each: each.id)
    its = lane("0-a", epoch=3)
    preparations.begin([its])
    assert preparations.taken(its)
    for coming, wanted, kept in (([its], [], True), ([], ["0-a"], True), ([], ["0-b"], False)):
        preparations.begin(coming, wanted)
        assert preparations.taken(its) is kept
        assert preparations.foreseen(its) == ("0-a" if kept else None)


def test_what_is_still_being_prepared_is_kept() -> None:
    go = threading.Event()

    def take(each: Lane) -> None:
        assert go.wait(10)

    preparations = Preparations[str](take)
    its = lane("0-a", epoch=3)
    preparations.begin([its])
    preparations.begin([])
    go.set()
    assert preparations.taken(its)
