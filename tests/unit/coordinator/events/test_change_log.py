"""The changes of a job, as its events tell of them: predicted beside measured."""

from __future__ import annotations

import pytest

from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.events import change_log
from anabranch.coordinator.store import Event, Store
from anabranch.protocol.commands import ScaleRequest
from tests.unit.coordinator.helpers import Clock
from tests.unit.coordinator.workers import JOB, running


def event(number: int, what: str, why: str = "", who: str = "coordinator") -> Event:
    return Event(job="j", at=100.0 + number, who=who, what=what, why=why, id=number)


def test_a_change_has_what_was_predicted_and_what_was_measured() -> None:
    (only,) = change_log.records(
        [
            event(1, "running → changing, generation 7", "factor 8 → 16, containers 2 → 2: lag", "autoscale"),
            event(2, *change_log.expectation(1.24, 8, 8)),
            event(3, "lane 0-1a2b runs"),
            event(5, "changing → running", "all lanes run, in 4.1 s"),
            event(9, *change_log.measurement(1.63, 1.24)),
        ],
        deployment=3,
    )
    assert (only.id, only.deployment, only.generation, only.kind, only.who) == (1, 3, 7, "scale", "autoscale")
    assert (only.predicted_pause, only.measured_pause, only.seconds) == (1.2, 1.6, 4.1)
    assert (only.closing, only.starting, only.outcome, only.ended) == (8, 8, "done", 105.0)


def test_what_an_older_store_does_not_tell_is_not_known() -> None:
    before = [event(1, "running → changing, generation 2", "rewound to earliest"), event(2, "changing → running")]
    (only,) = change_log.records(before)
    assert (only.kind, only.closing, only.predicted_pause, only.measured_pause) == ("rewind", None, None, None)
    (after,) = change_log.records([*before, event(3, "output stood still for 0.9 s", "1.1 s was foretold")])
    assert (after.predicted_pause, after.measured_pause) == (1.1, 0.9)


def test_nothing_to_read_is_no_pause() -> None:
    change = event(1, "running → changing, deployment 4, of version 2 again")
    (only,) = change_log.records([change, event(2, *change_log.measurement(0.0, 1.0))])
    assert (only.kind, only.deployment, only.generation, only.measured_pause) == ("rollback", 4, 1, 0.0)


def test_a_change_that_another_one_takes_back_is_undone() -> None:
    first, second = change_log.records(
        [
            event(1, "running → changing, generation 2", "factor 1 → 4, containers 1 → 1"),
            event(2, "changing → changing, generation 3", "cancelled: the user cancelled it"),
            event(3, "changing → running", "all lanes run, in 2.0 s"),
        ]
    )
    assert (first.outcome, first.reason, first.ended) == ("undone", "the user cancelled it", 102.0)
    assert (second.kind, second.outcome) == ("undo", "done")


def test_one_that_fails_says_why() -> None:
    change = event(1, "running → changing, generation 2", "tasks go where they should be by racks")
    (only,) = change_log.records([change, event(2, "changing → failed", "lane 0-1a2b: no")])
    assert (only.kind, only.outcome, only.reason) == ("assign", "failed", "lane 0-1a2b: no")


@pytest.mark.parametrize("limit", [1, 2, 50])
def test_a_coordinator_tells_of_the_last_ones_newest_first(limit: int) -> None:
    coordinator = Coordinator(Store("sqlite://"), clock=Clock(), lease=10, grace=2)
    worker = running(coordinator)
    told = []
    for factor in (4, 16):
        told.append(coordinator.scale(JOB, ScaleRequest(factor=factor)))
        worker.turns(6)
    found = coordinator.changes(JOB, limit)
    expected = [(each.generation, round(each.pause, 1), len(each.closing), len(each.lanes)) for each in reversed(told)]
    assert [(each.generation, each.predicted_pause, each.closing, each.starting) for each in found] == expected[:limit]
    assert {each.outcome for each in found} == {"done"}
    assert [each.generation for each in coordinator.changes(JOB, before=found[0].id)] == [2]
