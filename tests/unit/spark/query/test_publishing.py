"""When the records of a batch that can't be processed are looked for, and written."""

from __future__ import annotations

from dataclasses import fields, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from anabranch.errors import StateError
from anabranch.event_time.progress import Progress
from anabranch.spark.query import dead_letters
from anabranch.spark.query.planned_batch import Batch
from anabranch.spark.query.publishing import Publishing
from anabranch.spark.query.rejections import Rejections
from tests.unit.coordinator.helpers import lane as made_lane


class Rejected:
    """What is done about records that can't be processed, in order."""

    def __init__(self, into_state: str) -> None:
        self.into_state = into_state
        self.steps: list[str] = []

    def look(self, batch: int, measured: Any) -> None:
        self.steps.append(f"look through batch {batch}")

    def begin(self) -> None:
        self.steps.append("forget")

    def put(self) -> None:
        self.steps.append("write")

    def finish(self) -> list[Any]:
        self.steps.append("finish")
        return []


def publishing(rejected: Rejected) -> Publishing:
    """Of a lane each of whose batches has records that can't be read or have no key."""
    nothing: dict[str, Any] = {"lane": None, "publishers": {}, "plain": {}, "targets": {}, "timed": (), "refusals": {}}
    return Publishing(
        **nothing,
        rejections=cast(Any, rejected),
        time=cast(Any, SimpleNamespace(path=None)),
        planned=lambda number: cast(Any, number),
        observed=lambda: {"in": {"marked": 1}},
    )


@pytest.mark.parametrize(
    ("into_state", "steps"),
    [
        ("process 'p'", ["look through batch 3", "write", "write", "finish"]),
        ("", ["write", "write", "look through batch 3", "finish"]),
    ],
)
def test_all_that_a_stateful_operator_rejects_is_known_before_it_is_written(into_state: str, steps: list[str]) -> None:
    rejected = Rejected(into_state)
    lane = publishing(rejected)
    lane.begin(3)
    for _ in ("a stream", "a table"):
        lane.put_first(3)
    lane.finish(3, [], {})
    assert rejected.steps == ["forget", *steps]


def test_a_batch_that_runs_again_is_looked_through_again() -> None:
    rejected = Rejected("process 'p'")
    lane = publishing(rejected)
    for _ in ("broken off", "run again"):
        lane.begin(3)
        lane.put_first(3)
    assert rejected.steps == ["forget", "look through batch 3", "write"] * 2


def test_what_a_batch_that_was_broken_off_has_rejected_is_not_written_with_another_one() -> None:
    """A smaller one, which reads only some of those records."""
    said = SimpleNamespace(value=[dead_letters.Rejected("map 'f'", 0, 0, {90: "boom"}, [], b"a")])
    unused: dict[str, Any] = {each.name: None for each in fields(Rejections)}
    lane = publishing(cast(Any, Rejections(**{**unused, "aside": SimpleNamespace(said=said)})))
    lane.begin(3)
    assert said.value == []


@pytest.mark.parametrize("begins", [{}, None])
def test_nothing_is_written_of_a_batch_that_ends_before_it_begins_if_spark_would_run_it(
    begins: dict[str, int] | None,
) -> None:
    """Spark itself refuses to run it, unless lost records may be skipped."""
    batch = Batch(3, {"flights": {0: 9}}, {"flights": {0: 4}}, Progress())
    lane = replace(publishing(Rejected("")), lane=made_lane("0-1"), planned=lambda _: batch, begins=begins)
    if begins is not None:
        with pytest.raises(StateError, match="embedded/flights/0 ended at offset 4 when batch 3 was planned"):
            lane.begin(3)
    else:
        lane.begin(3)
