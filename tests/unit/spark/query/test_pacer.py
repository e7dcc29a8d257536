"""What becomes of a query's limits after each of its batches, with a query that only says where its sources are."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, cast

import pytest

from anabranch.pace.controller import BatchTarget
from anabranch.spark.query import pacer as pacers
from anabranch.spark.query.pacer import Pacer, name_of

EMBEDDED, KAFKA = name_of({"stream": "in", "positions": {}}), name_of({"topic": {}})
CLOCK = json.dumps({"source": "anabranch-time", "at": 1})


class Query:
    """Its sources are the clock, a stream and a topic."""

    def __init__(self) -> None:
        self.begin = ["", "", ""]
        self.end = [CLOCK, _embedded({0: 0}), _kafka({0: 0})]
        self.given: list[Mapping[int, int]] = []

    def begins(self) -> list[str]:
        return self.begin

    def ends(self) -> list[str]:
        return self.end

    def give(self, rows: Mapping[int, int]) -> None:
        self.given.append(rows)


def _embedded(positions: Mapping[int, int]) -> str:
    return json.dumps({"stream": "in", "id": "x", "positions": {str(p): at for p, at in positions.items()}})


def _kafka(positions: Mapping[int, int]) -> str:
    return json.dumps({"topic": {str(p): at for p, at in positions.items()}})


@pytest.fixture
def query(monkeypatch: pytest.MonkeyPatch) -> Query:
    found = Query()
    monkeypatch.setattr(pacers.read_limits, "current", lambda _: found)
    monkeypatch.setattr(pacers, "ReadLimits", lambda _, query: query)
    monkeypatch.setattr(pacers.clock, "is_of_clock", lambda told: "source" in told)
    return found


def made(first: int = 100, most: int = 10_000) -> Pacer:
    inputs = {EMBEDDED: {0: 0}, KAFKA: {0: 1000}}
    return Pacer(cast(Any, None), BatchTarget(4.0, 2, 2 * most), first, most, inputs)


def test_the_first_batch_is_shared_evenly() -> None:
    assert made().shares == {EMBEDDED: 50, KAFKA: 50}
    assert made().limit == 100
    assert not made().is_known


def test_what_a_batch_read_counts_from_where_the_lane_begins(query: Query) -> None:
    pacer = made()
    query.end = [CLOCK, _embedded({0: 50}), _kafka({0: 1050})]
    pacer.ran(0, 0.2)
    assert pacer.limit == 1000
    assert query.given == [{1: 500, 2: 500}]
    assert pacer.is_known


def test_without_a_target_there_is_nothing_to_remember(query: Query) -> None:
    pacer = Pacer(
        cast(Any, None), BatchTarget(math.inf, 2, 20_000), 20_000, 10_000, {EMBEDDED: {0: 0}, KAFKA: {0: 1000}}
    )
    query.end = [CLOCK, _embedded({0: 10_000}), _kafka({0: 11_000})]
    pacer.ran(0, 50.0)
    assert pacer.limit == 20_000
    assert not pacer.is_known


def test_what_a_batch_read_counts_from_where_the_one_before_it_ended(query: Query) -> None:
    pacer = made()
    query.begin = [CLOCK, _embedded({0: 7000}), _kafka({0: 8000})]
    query.end = [CLOCK, _embedded({0: 7010}), _kafka({0: 8050})]
    pacer.ran(0, 0.2)
    assert pacer.limit == 600
    query.end = [CLOCK, _embedded({0: 7012}), _kafka({0: 8050})]
    pacer.ran(1, 0.2)
    assert pacer.limit == 600  # it had all that there was


def test_one_input_that_has_more_gets_what_the_other_does_not_need(query: Query) -> None:
    pacer = made()
    query.end = [CLOCK, _embedded({0: 2}), _kafka({0: 1050})]
    pacer.ran(0, 0.2)
    assert pacer.limit == 520
    assert query.given == [{1: 32, 2: 488}]


@pytest.mark.parametrize(
    ("seconds", "given"),
    [
        (0.2, {1: 50, 2: 50}),  # it could have 1,000 records
        (4.0, {1: 12, 2: 13}),
    ],
)
def test_the_last_batch_of_a_closing_lane_does_not_grow_and_is_brief(
    query: Query, seconds: float, given: dict[int, int]
) -> None:
    pacer, plain = made(), made()
    query.end = [CLOCK, _embedded({0: 50}), _kafka({0: 1050})]
    plain.ran(0, seconds)
    query.given.clear()
    pacer.shorten(1.0)
    pacer.ran(0, seconds)
    assert query.given == [given]
    assert pacer.limit == plain.limit, "what is remembered for successors isn't changed"


def test_limits_that_stay_are_not_given_again(query: Query) -> None:
    pacer = made()
    for batch in range(3):
        query.end = [CLOCK, _embedded({0: batch}), _kafka({0: 1000 + batch})]
        pacer.ran(batch, 0.2)
    assert query.given == [{1: 50, 2: 50}]


def test_what_a_batch_takes_beside_being_written_counts_once_it_is_known_twice(query: Query) -> None:
    def limit_after(several: list[float]) -> int:
        pacer = made()
        for batch, beside in enumerate(several):
            query.end = [CLOCK, _embedded({0: 0}), _kafka({0: 1000})]
            pacer.ran(batch, 1.0)
            pacer.took(batch, 1.0 + beside)
        query.end = [CLOCK, _embedded({0: 0}), _kafka({0: 1050})]
        pacer.ran(9, 1.0)
        return pacer.limit

    assert limit_after([]) == limit_after([1.0]) == 160
    assert limit_after([0.9, 0.5]) == pytest.approx(50 * 0.8 * 4 / 1.5, abs=1)


def test_a_query_that_follows_goes_on_from_what_was_found_out(query: Query) -> None:
    former, pacer = made(), made()
    query.end = [CLOCK, _embedded({0: 50}), _kafka({0: 1050})]
    former.ran(0, 0.2)
    pacer.go_on(former)
    assert pacer.limit == 1000
    assert pacer.shares == {EMBEDDED: 500, KAFKA: 500}


def test_a_batch_of_a_query_that_has_ended_says_nothing(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pacers.read_limits, "current", lambda _: None)
    pacer = made()
    pacer.ran(0, 0.2)
    assert pacer.limit == 100
    assert not query.given


@pytest.mark.parametrize("topic", ["stream", "positions"])
def test_a_topic_may_be_called_as_the_fields_of_our_offsets_are(topic: str) -> None:
    assert name_of({topic: {"0": 5}}) == name_of({topic: {}}) == f"topic {topic}"
    assert name_of({"stream": topic, "id": "x", "positions": {}}) == f"stream {topic}"
