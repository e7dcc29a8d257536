"""Each event is recorded with its kind, and with what it is about."""

from __future__ import annotations

import re
from typing import Any

import pytest

from anabranch.coordinator.api.audit import Audit, AuditedRequest
from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.jobs import job_events
from anabranch.coordinator.store import Event, Store
from anabranch.model.deployment_state import DeploymentState
from anabranch.protocol.commands import ExpandRequest, RewindRequest, ScaleRequest
from anabranch.protocol.deployment import RollbackRequest
from anabranch.protocol.status import LaunchStatus
from tests.unit.coordinator import drainer, versions
from tests.unit.coordinator.helpers import Clock
from tests.unit.coordinator.rewinds import coordinator, systems
from tests.unit.coordinator.workers import JOB, Worker, running, start

__all__ = ["coordinator", "systems"]  # fixtures

LANE, CONTAINER = re.compile(r"\b0-[0-9a-f]{8}\b"), re.compile(r"^j:0:\d+$")


def recorded(store: Store) -> dict[str, tuple[object, ...]]:
    """The events of a job by their texts, without the ids of lanes and containers."""
    return {_shown(each.what): _fields(each) for each in store.events(JOB, 1000)}


def _shown(text: str) -> str:
    return re.sub(r"j:0:\d+", "C", LANE.sub("L", text))


def _fields(event: Event) -> tuple[object, ...]:
    """Kind, lane, container, generation and mark."""
    assert event.lane == ("" if not event.what.startswith("lane ") else event.what.split()[1])
    assert not event.container or CONTAINER.match(event.container)
    assert not CONTAINER.match(event.who) or event.who == event.container
    lane, container = "L" if event.lane else "", "C" if event.container else ""
    return (event.kind, lane, container, event.generation, event.mark)


def change_of(store: Store, what: str) -> dict[str, Any]:
    """What the last event with such a text says about a change, without what it doesn't say."""
    last = [each for each in store.events(JOB, 1000) if what in each.what][-1]
    assert last.change is not None
    return {name: each for name, each in last.change.to_builtins().items() if each not in (None, "", 0)}


def test_of_a_change(coordinator: Coordinator, store: Store, clock: Clock) -> None:
    worker = running(coordinator)
    clock.at += 1
    coordinator.scale(JOB, ScaleRequest(factor=4))
    clock.at += 3
    worker.turns(6)
    assert recorded(store) == {
        "planned deployment 1": ("state", "", "", 0, None),
        "planned → starting": ("state", "", "", 0, None),
        "took seat 0": ("seat", "", "C", 0, None),
        "starting → running": ("state", "", "", 0, None),
        "running → changing, generation 2": ("change", "", "", 2, None),
        "output is expected to pause for 1.5 s": ("change", "", "", 0, None),
        "lane L ended": ("lane", "L", "C", 0, "ended"),
        "lane L has its start offsets": ("lane", "L", "", 0, None),
        "lane L runs": ("lane", "L", "C", 0, "started"),
        "changing → running": ("state", "", "", 0, None),
    }
    assert change_of(store, "generation 2") == {"kind": "scale", "deployment": 1}
    assert change_of(store, "expected to pause") == {"closing": 2, "starting": 2, "predictedPause": 1.5}
    assert change_of(store, "changing → running") == {"outcome": "done", "seconds": 3.0}
    assert [each.what for each in store.events(JOB, 100) if each.change] == [
        "running → changing, generation 2",
        "output is expected to pause for 1.5 s",
        "changing → running",
    ]


def test_of_changes_that_are_undone(coordinator: Coordinator, store: Store) -> None:
    worker = running(coordinator)
    worker.closes = False
    coordinator.scale(JOB, ScaleRequest(factor=4))
    coordinator.scale(JOB, ScaleRequest(factor=4, now=True))
    coordinator.cancel(JOB)
    assert recorded(store)["the change no longer waits for batches"] == ("change", "", "", 0, None)
    undo = {"kind": "undo", "deployment": 1, "undoneBecause": "the user cancelled it"}
    assert change_of(store, "changing → changing, generation 3") == undo
    worker.closes, worker.fails = True, lambda lane: lane.factor == 8
    worker.turns(6)
    coordinator.scale(JOB, ScaleRequest(factor=8))
    worker.turns(6)
    found = recorded(store)
    assert found["lane L failed"] == ("lane", "L", "C", 0, "failed")
    assert "can't start: it can't" in change_of(store, "changing → changing, generation 5")["undoneBecause"]
    assert [each.outcome for each in coordinator.changes(JOB)] == ["done", "undone", "done", "undone"]


def test_of_a_rewind_and_a_stop(coordinator: Coordinator, store: Store) -> None:
    worker = running(coordinator)
    coordinator.rewind(JOB, RewindRequest(to={"embedded/in/1": 0}, state="keep"))
    assert change_of(store, "generation 2") == {"kind": "rewind", "deployment": 1}
    coordinator.stop(JOB, at_once=True)
    worker.turns()
    assert recorded(store)["the stop no longer waits for batches"] == ("state", "", "", 0, None)
    assert change_of(store, "changing → stopping") == {"outcome": "failed"}


def test_of_added_partitions_and_of_what_prevents_them(store: Store, clock: Clock) -> None:
    counts = {"embedded/in": 3}
    coordinator = Coordinator(store, clock=clock, lease=10, grace=2, counting=lambda *_: counts)
    running(coordinator)
    coordinator.look()
    assert recorded(store)["the job can't adapt to its inputs"] == ("input", "", "", 0, None)
    counts["embedded/in"] = 4
    coordinator.expand(JOB, ExpandRequest())
    assert change_of(store, "generation 2") == {"kind": "expand", "deployment": 1}


def test_of_a_container_that_loses_its_seat(coordinator: Coordinator, store: Store) -> None:
    worker = running(coordinator)
    worker.reports = {name: each.changed(number=2, trouble="no") for name, each in worker.reports.items()}
    worker.seat.beat(*(each.changed(awaits="a disk", waits="so long") for each in worker.reports.values()))
    worker.seat.beat(*worker.reports.values())
    coordinator.fence(worker.seat.me.container or "")
    for fence in coordinator.fences():
        coordinator.fence_failed(fence.lane, "a broker doesn't answer")
        coordinator.fenced(fence.lane)
    found = recorded(store)
    assert found["C has lost its seat"] == ("seat", "", "C", 0, None)
    assert found["lane L failed and is tried again, attempt 2"] == ("lane", "L", "C", 0, "retried")
    for what in ("waits for a disk", "no longer waits", "waits to end"):
        assert found[f"lane L {what}"] == ("lane", "L", "C", 0, None)
    assert found["lane L can't be fenced yet"] == ("fence", "L", "", 0, None)
    assert found["lane L is fenced"] == ("fence", "L", "", 0, "fenced")


def test_of_a_lane_whose_seat_is_gone(coordinator: Coordinator, store: Store) -> None:
    coordinator.start(start(containers=2))
    workers = [Worker(coordinator, seat, pid=int(seat)) for seat in ("0", "1")]
    for worker in (*workers, workers[0]):
        worker.turns()
    assert coordinator.status(JOB).state == "running"
    coordinator.scale(JOB, ScaleRequest(containers=1))
    coordinator.fence(next(each.container for each in coordinator.status(JOB).containers if each.seat == "1"))
    for fence in coordinator.fences():
        coordinator.fenced(fence.lane)
    moved, *_ = [each for each in store.events(JOB, 1000) if "has to close" in each.what]
    assert (moved.kind, moved.lane, moved.why) == ("seat", "", "their seat no longer exists")


def test_of_deployments(store: Store) -> None:
    coordinator, (old,) = versions.running(store)
    versions.deploy(coordinator, versions.job(more=True))
    assert change_of(store, "deployment 2") == {"kind": "deploy", "deployment": 2}
    assert recorded(store)["running → changing, deployment 2"] == ("change", "", "", 0, None)
    versions.relieved(old, 2).work()
    assert recorded(store)["left seat 0"] == ("seat", "", "C", 0, None)
    coordinator.rollback("j", RollbackRequest())
    assert change_of(store, "deployment 3, which returns to version 1") == {"kind": "rollback", "deployment": 3}
    coordinator.cancel("j")
    undo = change_of(store, "deployment 4, which returns to version 2")
    assert undo == {"kind": "undo", "deployment": 4, "undoneBecause": "the user cancelled it"}
    assert [each.generation for each in coordinator.changes("j")] == [1, 1, 1]


def test_of_a_drain(store: Store) -> None:
    coordinator = Coordinator(store, Clock(), grace=5.0)
    worker = drainer.running(coordinator)
    coordinator.drain(JOB, drainer.said())
    coordinator.cancel(JOB)
    worker.turns()
    coordinator.drain(JOB, drainer.said())
    worker.turns(12)
    assert coordinator.status(JOB).state == "drained"
    found = recorded(store)
    for what in (
        "requested a drain, mode planned",
        "cancelled the drain",
        "the drain's end positions are set",
        "everything is taken in: event time ends",
    ):
        assert found[what] == ("drain", "", "", 0, None)


def test_of_the_launcher(coordinator: Coordinator, store: Store) -> None:
    running(coordinator)
    coordinator.launched(JOB, LaunchStatus(wanted=1, running=1), [("started a container, process 7", "")])
    assert recorded(store)["started a container, process 7"] == ("launcher", "", "", 0, None)


def test_of_a_request(store: Store, tmp_path: Any) -> None:
    noted: list[Event] = []
    audit = Audit(tmp_path / "audit", noted.append)
    audit.take(AuditedRequest(1.0, "admin", "", "127.0.0.1", "POST", f"/jobs/{JOB}/stop", 200))
    audit.close()
    assert [(each.kind, each.what) for each in noted] == [("other", f"POST /jobs/{JOB}/stop: 200")]


@pytest.mark.parametrize(
    ("to", "error", "outcome"),
    [
        (DeploymentState.RUNNING, None, "done"),
        (DeploymentState.STOPPING, None, "failed"),  # the user stopped it before all new lanes ran
        (DeploymentState.STARTING, None, "failed"),  # the process that was changing it died
        (DeploymentState.STOPPING, "all lanes have failed", "failed"),
    ],
)
def test_a_change_is_done_only_once_all_its_lanes_run(to: DeploymentState, error: str | None, outcome: str) -> None:
    event = job_events.moved(JOB, 1.0, DeploymentState.CHANGING, to, error or "so", error=error)
    assert event.change is not None
    assert event.change.outcome == outcome
    assert job_events.moved(JOB, 1.0, DeploymentState.RUNNING, DeploymentState.STOPPING, "so").change is None


def test_an_event_has_a_kind() -> None:
    with pytest.raises(TypeError, match="kind"):
        Event(job=JOB, at=1.0, who="user", what="did")  # type: ignore[call-arg]


def test_it_is_shown_without_what_records_are_made_from() -> None:
    shown = job_events.measured(JOB, 1.0, 1.6, 1.2).logged()
    assert set(shown.to_builtins()) == {
        "job", "at", "who", "what", "why", "id", "kind", "lane", "container", "generation"
    }  # fmt: skip
    assert (shown.kind, shown.what, shown.why) == ("change", "output paused for 1.6 s", "1.2 s was expected")
