"""The changes of a job, as its events tell of them: predicted beside measured."""

from __future__ import annotations

import pytest

from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.events import change_log
from anabranch.coordinator.store import ChangeStep, Event, Store
from anabranch.protocol.commands import ScaleRequest
from anabranch.views.changes import ChangeKind
from tests.unit.coordinator.helpers import Clock
from tests.unit.coordinator.workers import JOB, running


def event(
    number: int, change: ChangeStep | None, why: str = "", who: str = "coordinator", generation: int = 0
) -> Event:
    return Event(
        kind="change",
        job="j",
        at=100.0 + number,
        who=who,
        what="something",
        why=why,
        id=number,
        generation=generation,
        change=change,
    )


def began(number: int, kind: ChangeKind, why: str = "", undone_because: str = "", generation: int = 2) -> Event:
    return event(number, ChangeStep(kind=kind, undone_because=undone_because), why, generation=generation)


DONE = ChangeStep(outcome="done", seconds=4.1)


def test_a_change_has_what_was_predicted_and_what_was_measured() -> None:
    (only,) = change_log.records(
        [
            event(1, ChangeStep(kind="scale"), "factor 8 → 16, containers 2 → 2: lag", "autoscale", 7),
            event(2, ChangeStep(closing=8, starting=8, predicted_pause=1.3)),
            event(3, None),
            event(5, DONE),
            event(9, ChangeStep(measured_pause=1.6, predicted_pause=1.2, paused_lane="0-b")),
        ],
        deployment=3,
    )
    assert (only.id, only.deployment, only.generation, only.kind, only.who) == (1, 3, 7, "scale", "autoscale")
    assert (only.predicted_pause, only.measured_pause, only.seconds) == (1.2, 1.6, 4.1)
    assert only.paused_lane == "0-b"
    assert (only.closing, only.starting, only.outcome, only.ended) == (8, 8, "done", 105.0)


def test_what_no_event_says_is_not_known() -> None:
    (only,) = change_log.records([event(0, DONE), began(1, "rewind"), event(2, ChangeStep(outcome="done"))])
    assert (only.kind, only.closing, only.predicted_pause, only.measured_pause) == ("rewind", None, None, None)
    assert only.seconds == 1.0, "from its first event to its last one"


def test_nothing_to_read_is_no_pause() -> None:
    change = event(1, ChangeStep(kind="rollback", deployment=4))
    (only,) = change_log.records([change, event(2, ChangeStep(measured_pause=0.0, predicted_pause=1.0))])
    assert (only.kind, only.deployment, only.generation, only.measured_pause) == ("rollback", 4, 1, 0.0)


def test_a_change_that_another_one_takes_back_is_undone() -> None:
    why = "the user cancelled it"
    first, second = change_log.records(
        [began(1, "scale"), began(2, "undo", f"cancelled: {why}", why, generation=3), event(3, DONE)]
    )
    assert (first.outcome, first.reason, first.ended) == ("undone", why, 102.0)
    assert (second.kind, second.outcome) == ("undo", "done")


def test_one_that_fails_says_why() -> None:
    (only,) = change_log.records([began(1, "assign"), event(2, ChangeStep(outcome="failed"), "lane 0-1a2b: no")])
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
