"""Queries that are begun before their lanes are: where, which, and what becomes of those that nobody needs."""

from __future__ import annotations

import threading
import time
from typing import Any

import msgspec
import pytest

from anabranch.container.lane.handover import PrestartedQuery, Prestarter, begins
from anabranch.errors import AnabranchError
from anabranch.model.lane import Lane
from anabranch.model.ssp import SSP
from tests.unit.coordinator.helpers import lane

FIRST, SECOND = (SSP(system="kafka", stream="in", partition=p) for p in (0, 1))
HALF = SSP(system="kafka", stream="in", partition=0, key_bucket=0)


def coming(*predecessors: str, ssps: tuple[SSP, ...] = (FIRST, SECOND), name: str = "0-b", epoch: int = 3) -> Lane:
    return msgspec.structs.replace(lane(name, epoch=epoch, predecessors=predecessors), ssps=ssps)


@pytest.mark.parametrize(
    ("ends", "found"),
    [
        ({"0-a": {FIRST: 5, SECOND: 9}}, {FIRST: 5, SECOND: 9}),
        ({"0-a": {FIRST: 5, SECOND: 9}, "0-z": {FIRST: 1}}, {FIRST: 5, SECOND: 9}),
        ({"0-a": {FIRST: 5}}, None),
        ({"0-z": {FIRST: 5, SECOND: 9}}, None),
        ({}, None),
    ],
)
def test_a_lane_begins_where_the_one_before_ends(ends: dict[str, dict[SSP, int]], found: Any) -> None:
    assert begins(coming("0-a"), ends) == found


@pytest.mark.parametrize(
    ("second", "found"), [({FIRST: 5}, {FIRST: 5}), ({FIRST: 6}, None), ({SECOND: 7}, {FIRST: 5}), (None, None)]
)
def test_it_is_known_once_all_have_told_and_only_if_they_end_together(second: Any, found: Any) -> None:
    ends = {"0-a": {FIRST: 5}} | ({} if second is None else {"0-c": second})
    assert begins(coming("0-a", "0-c", ssps=(HALF,)), ends) == found


def test_what_it_reads_of_fresh_partitions_is_not_among_what_those_before_tell() -> None:
    grown = msgspec.structs.replace(coming("0-a"), fresh=(SECOND,))
    assert begins(grown, {"0-a": {FIRST: 5}}) == {FIRST: 5}


def test_one_that_goes_on_from_none_is_not_begun_ahead() -> None:
    assert begins(coming(), {"0-a": {FIRST: 5, SECOND: 9}}) is None


class Query:
    """What was begun, as far as it is looked at here."""

    def __init__(self, lane: Lane, starting: dict[SSP, int]) -> None:
        self.lane, self.starting, self.abandoned = lane, starting, False
        self.trouble = ""

    def begins_as(self, _: object, starting: dict[SSP, int]) -> bool:
        return starting == self.starting

    def abandon(self) -> None:
        self.abandoned = True
        if self.trouble:
            raise OSError(self.trouble)


class Container:
    """Begins what it is told to, unless that ``fails``."""

    def __init__(self, *, can: bool = True, fails: bool = False) -> None:
        self.queries: list[Query] = []
        self._fails = fails
        self.prestarter = Prestarter(self._begin, lambda _: can)

    def begun(self, lane_id: str) -> bool:
        """Whether the query of a lane was begun, once it was."""
        deadline = time.monotonic() + 10
        while not any(query.lane.id == lane_id for query in tuple(self.queries)) and time.monotonic() < deadline:
            time.sleep(0.01)
        return any(query.lane.id == lane_id for query in tuple(self.queries))

    def _begin(self, lane: Lane, starting: dict[SSP, int]) -> PrestartedQuery | None:
        if self._fails:
            raise AnabranchError("the broker isn't there", "start it")
        self.queries.append(Query(lane, starting))
        return self.queries[-1]  # type: ignore[return-value]


ENDS = {FIRST: 5, SECOND: 9}


def test_what_was_begun_is_given_once_and_under_its_epoch() -> None:
    container = Container()
    its = coming("0-a")
    container.prestarter.announce([its], ["0-a"])
    container.prestarter.end_at("0-a", ENDS)
    container.prestarter.end_at("0-a", ENDS)
    assert container.prestarter.take(coming("0-a", epoch=4)) is None
    begun: Any = container.prestarter.take(its)
    assert [begun] == container.queries
    assert begun.starting == ENDS
    assert container.prestarter.take(its) is None
    container.prestarter.end()
    assert container.prestarter.join(10)
    assert not begun.abandoned


@pytest.mark.parametrize("fits", [True, False])
def test_it_is_given_if_it_fits_and_abandoned_otherwise(fits: bool) -> None:
    container = Container()
    its = coming("0-a")
    container.prestarter.announce([its], ["0-a"])
    container.prestarter.end_at("0-a", ENDS)
    wanted: Any = None, (ENDS if fits else {**ENDS, FIRST: 6})
    begun: Any = container.prestarter.take_fitting(its, lambda: wanted)
    assert (begun in container.queries, container.queries[0].abandoned) == (fits, not fits)
    assert container.prestarter.take_fitting(its, lambda: wanted) is None


def test_it_is_abandoned_if_nobody_knows_where_its_lane_begins() -> None:
    container = Container()
    its = coming("0-a")
    container.prestarter.announce([its], ["0-a"])
    container.prestarter.end_at("0-a", ENDS)

    def unknown() -> Any:
        raise AnabranchError("the broker isn't there", "start it")

    with pytest.raises(AnabranchError):
        container.prestarter.take_fitting(its, unknown)
    assert container.queries[0].abandoned


def test_it_is_awaited_if_it_can_be_begun() -> None:
    for can in (False, True):
        container = Container(can=can)
        container.prestarter.announce([coming("0-a")], ["0-a"])
        assert container.prestarter.is_awaited("0-a") == can
        assert not container.prestarter.is_awaited("0-b")


def test_what_comes_no_more_is_abandoned_and_what_is_wanted_is_kept() -> None:
    container = Container()
    its = [coming("0-a", name=name) for name in ("0-b", "0-c")]
    container.prestarter.announce(its, ["0-a"])
    container.prestarter.end_at("0-a", ENDS)
    container.prestarter.announce([], ["0-b"])
    assert container.prestarter.join(10)
    assert {query.lane.id: query.abandoned for query in container.queries} == {"0-b": False, "0-c": True}
    assert container.prestarter.take(its[1]) is None
    container.prestarter.end()
    assert container.prestarter.join(10)
    assert all(query.abandoned for query in container.queries)


def test_a_query_that_is_still_being_begun_holds_up_nobody_but_its_own_lane() -> None:
    answers = threading.Event()
    abandoned: list[bool] = []

    def begin(its: Lane, starting: dict[SSP, int]) -> Any:
        assert answers.wait(10)
        query = Query(its, starting)
        query.abandon = lambda: abandoned.append(True)  # type: ignore[method-assign]
        return query

    prestarter = Prestarter(begin, lambda _: True)
    its = coming("0-a")
    prestarter.announce([its], ["0-a"])
    prestarter.end_at("0-a", ENDS)
    threading.Timer(1.0, answers.set).start()
    prestarter.announce([], ["0-a"])
    assert not answers.is_set()
    assert not prestarter.join(0)
    prestarter.announce([its], ["0-a"])
    prestarter.end_at("0-a", ENDS)
    assert prestarter.take(its) is None  # only once nothing uses the lane's folder any more
    assert abandoned == [True]
    assert prestarter.join(0)


def test_ends_that_were_told_before_another_change_do_not_count() -> None:
    container = Container()
    container.prestarter.announce([coming("0-a", "0-z", ssps=(HALF,))], ["0-a", "0-z"])
    container.prestarter.end_at("0-z", ENDS)
    container.prestarter.announce([], ["0-a", "0-z"])
    container.prestarter.announce([coming("0-a", "0-z", ssps=(HALF,))], ["0-a", "0-z"])
    container.prestarter.end_at("0-a", ENDS)
    assert not container.queries


def test_one_that_could_not_be_begun_ahead_is_begun_later() -> None:
    container = Container(fails=True)
    container.prestarter.announce([coming("0-a")], ["0-a"])
    container.prestarter.end_at("0-a", ENDS)
    assert container.prestarter.take(coming("0-a")) is None


def test_queries_that_cannot_be_cleaned_up_do_not_keep_others_from_being_abandoned() -> None:
    container = Container()
    container.prestarter.announce([coming("0-a", name=name) for name in ("0-b", "0-c")], ["0-a"])
    container.prestarter.end_at("0-a", ENDS)
    for lane_id in ("0-b", "0-c"):
        assert container.begun(lane_id)
    for query in container.queries:
        query.trouble = "Input/output error"
    container.prestarter.end()
    assert container.prestarter.join(10)
    assert [query.abandoned for query in container.queries] == [True, True]


def test_why_it_does_not_begin_is_told_even_if_it_cannot_be_cleaned_up() -> None:
    container = Container()
    its = coming("0-a")
    container.prestarter.announce([its], ["0-a"])
    container.prestarter.end_at("0-a", ENDS)
    assert container.begun("0-b")
    container.queries[0].trouble = "Input/output error"

    def unknown() -> Any:
        raise AnabranchError("the broker isn't there", "start it")

    with pytest.raises(AnabranchError, match="the broker isn't there") as caught:
        container.prestarter.take_fitting(its, unknown)
    assert "Input/output error" in caught.value.__notes__[0]
