"""Requests and reports that a coordinator refuses: other jobs under a name, plans that don't fit, strangers."""

from __future__ import annotations

import pytest

from anabranch.coordinator.api.client import Client
from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.store import Store, stored_jobs
from anabranch.errors import (
    ConflictError,
    NotFoundError,
    StateError,
    UnsupportedFormatError,
    UsageError,
)
from anabranch.model.document import decode
from anabranch.protocol.container import Heartbeat
from anabranch.protocol.lane_report import BatchPhase
from tests.unit.coordinator.asked import asked, coordinator
from tests.unit.coordinator.helpers import FIRST, SECOND, Seat, lane, plan

__all__ = ["asked", "coordinator"]  # fixtures


def test_another_job_under_the_name_is_refused(store: Store, coordinator: Coordinator) -> None:
    coordinator.start(plan())
    again = Coordinator(store)
    with pytest.raises(ConflictError) as caught:
        again.start(plan(fingerprint={"graph": "b" * 64, "factor": "8", "new": "x"}))
    assert "\n    [job] factor is 8, and was 4\n" in caught.value.what
    assert "\n    new is x, and was not set" in caught.value.what
    ways = [line.strip().partition(":")[0] for line in caught.value.cure.splitlines()[1:]]
    assert ways == [
        "undo the change",
        "anabranch run JOB.py with the file as it was, which then stores its code; stop it, and run this one",
        "start it with the file as it was, anabranch drain delays, and start the new version",
        "anabranch reset delays",
    ]
    assert stored_jobs.status(store, "delays").state == "starting"
    assert again.start(plan()) == 1


def test_a_job_that_runs_is_not_started_again(coordinator: Coordinator) -> None:
    coordinator.start(plan())
    with pytest.raises(ConflictError, match="running already"):
        coordinator.start(plan())
    other = plan("other", (lane(FIRST, job="other"),))
    assert coordinator.start(other) == 1
    assert list(coordinator.known_lanes("other").values()) == [coordinator.status("other").lanes[0].lane]
    assert list(coordinator.known_lanes("delays")) == [FIRST, SECOND]


@pytest.mark.parametrize(
    ("lanes", "says"),
    [
        ((lane("a", job="x"),), "lane a is of job 'x'"),
        ((lane("a"), lane("a")), "two lanes are a"),
        ((lane("a", predecessors=("b",)),), "lane a comes after b, which nobody knows"),
    ],
)
def test_a_plan_that_doesn_t_fit_together_is_not_stored(
    lanes: tuple, says: str, coordinator: Coordinator, store: Store
) -> None:
    with pytest.raises(StateError, match=says):
        coordinator.start(plan(lanes=lanes))
    assert store.jobs() == []


def test_a_report_of_an_unknown_phase_is_refused() -> None:
    lane = b'{"lane": "0-a", "phase": "dancing"}'
    with pytest.raises(UnsupportedFormatError, match=r"not a Heartbeat: .*'dancing'.*lanes.*phase"):
        decode(b'{"container": "c", "epoch": 1, "number": 1, "lanes": [' + lane + b"]}", Heartbeat)


def test_a_batch_in_an_unknown_phase_is_only_shown_as_such() -> None:
    batch = b'{"number": 1, "planned": 2, "phase": "dancing", "spent": {"dancing": 1.5}}'
    lane = b'{"lane": "0-a", "phase": "running", "batchProgress": ' + batch + b"}"
    heard = decode(b'{"container": "c", "epoch": 1, "number": 1, "lanes": [' + lane + b"]}", Heartbeat)
    progress = heard.lanes[0].progress.batch_progress
    assert progress is not None
    assert (progress.phase, progress.spent) == (BatchPhase.OTHER, {"dancing": 1.5})


def test_strangers_are_refused(coordinator: Coordinator, asked: Coordinator | Client, store: Store) -> None:
    with pytest.raises(NotFoundError, match="no job 'delays'"):
        Seat(asked)
    other = Coordinator(store)
    other.start(plan())
    elsewhere = Seat(other)
    with pytest.raises(ConflictError, match="not running here"):
        Seat(asked)
    answer = asked.heartbeat(Heartbeat(container=elsewhere.me.container, epoch=elsewhere.me.epoch, number=1))
    assert (answer.alive, answer.reason) == (False, "job 'delays' is not running here")
    answer = asked.heartbeat(Heartbeat(container="delays:0:99", epoch=99, number=1))
    assert (answer.alive, answer.reason) == (False, "nobody knows container delays:0:99")
    coordinator.start(plan())
    seat = Seat(asked)
    answer = asked.heartbeat(Heartbeat(container=seat.me.container, epoch=seat.me.epoch + 1, number=1))
    assert (answer.alive, "has epoch" in (answer.reason or "")) == (False, True)
    for bad in ("../etc", "delays", "delays:0:x", "a:b:c:1"):
        with pytest.raises(UsageError, match="not a container id"):
            asked.heartbeat(Heartbeat(container=bad, epoch=1, number=1))
    with pytest.raises(UsageError, match="can't be the name of a job"):
        asked.status("../etc")
