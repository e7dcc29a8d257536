"""A deployment is taken back: on request, or because a lane can't start."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.coordinator.store import Store
from anabranch.errors import ConflictError
from anabranch.model.lane import LaneState
from anabranch.protocol.deployment import DeployRequest
from anabranch.protocol.lane_report import LanePhase
from tests.support.reports import lane_report
from tests.unit.coordinator.versions import Process, deploy, job, lanes_of, relieved, running, start


def test_it_can_be_cancelled_until_a_new_lane_has_begun(store: Store) -> None:
    coordinator, (old,) = running(store)
    deploy(coordinator, job(more=True))
    coordinator.cancel("j")
    status = coordinator.status("j")
    assert (status.state, status.deployment) == ("changing", 3)
    with pytest.raises(ConflictError, match="is already going back"):
        coordinator.cancel("j")
    old.work()
    assert {lane.state for lane in lanes_of(store, 2).values()} == {LaneState.CLOSED}  # nobody was ever told of them
    back = Process(coordinator, 3)
    old.leave()
    assert back.ask() == "0"
    back.work()
    assert coordinator.status("j").state == "running"
    assert coordinator.running("j").program.artifact == "a" * 64
    after = lanes_of(store, 3)
    assert (after["counted"].first_batch, {p.offset for p in after["counted"].starting}) == (4, {7})


def test_it_can_be_cancelled_while_new_lanes_start_but_no_longer(store: Store) -> None:
    coordinator, (old,) = running(store)
    deploy(coordinator, job(more=True))
    new = relieved(old, 2)
    new.work(begin=False)
    coordinator.cancel("j")
    back = relieved(new, 3)
    back.work()
    assert coordinator.status("j").state == "running"
    deploy(coordinator, job(more=True))
    other = relieved(back, 4)
    for each in other.beat().wanted:
        other.reports[each.lane.id] = lane_report(
            lane=each.lane.id, phase=LanePhase.STARTING, folder_epoch=other.me.epoch
        )
    other.beat()
    first = other.answer.wanted[0].lane
    other.reports[first.id] = lane_report(
        lane=first.id, phase=LanePhase.STARTING, folder_epoch=other.me.epoch, begun=True
    )
    other.beat()
    with pytest.raises(ConflictError, match="has begun with the code of deployment 4"):
        coordinator.cancel("j")


def test_a_lane_that_cannot_start_takes_it_back(store: Store) -> None:
    coordinator, (old,) = running(store)
    deploy(coordinator, job(more=True))
    new = relieved(old, 2)
    new.beat()
    new.fail(lanes_of(store, 2)["counted"].id)
    status = coordinator.status("j")
    assert (status.state, status.deployment) == ("changing", 3)
    assert any("it can't start" in event.why for event in store.events("j", 100))
    relieved(new, 3).work()
    assert coordinator.status("j").state == "running"
    assert {position.offset for position in lanes_of(store, 3)["counted"].starting} == {7}


@pytest.mark.parametrize("fails", [{"1"}, {"0", "1"}])
def test_a_lane_of_a_new_input_that_cannot_start_takes_it_back(store: Store, fails: set[str]) -> None:
    coordinator, (old,) = running(store)
    made = job()
    made.read("more", key="k string", schema="n int").where("n > 0").write("else")
    coordinator.deploy("j", DeployRequest(start=start(made, code="b" * 64, more=2)))
    new = relieved(old, 2)
    new.beat()
    for lane in (each for each in store.lanes("j").values() if each.deployment == 2 and each.stage in fails):
        assert bool(lane.predecessors) is (lane.stage == "0")
        new.reports[lane.id] = lane_report(lane=lane.id, phase=LanePhase.FAILED, error="it can't start")
    new.beat()
    status = coordinator.status("j")
    assert (status.state, status.deployment) == ("changing", 3)
    relieved(new, 3).work()
    assert coordinator.status("j").state == "running"
    assert {position.offset for position in lanes_of(store, 3)["counted"].starting} == {7}


def test_that_it_can_t_be_taken_back_is_recorded_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: Any) -> None:
        raise ConflictError("outputs below, out come from one lane now, but came from several")

    coordinator, (old,) = running(store)
    monkeypatch.setattr(coordinator.registry, "undo", refuses)
    deploy(coordinator, job(more=True))
    new = relieved(old, 2)
    new.beat()
    new.fail(lanes_of(store, 2)["counted"].id)
    for _ in range(3):
        coordinator.tick()
    its = [event for event in store.events("j", 100) if event.what == "the change can't be undone"]
    assert [event.why for event in its] == ["outputs below, out come from one lane now, but came from several"]


def test_dropped_state_is_there_again_after_a_cancel(store: Store) -> None:
    coordinator, (old,) = running(store)
    deploy(coordinator, job(state="other"), drop_state=("counted",))
    coordinator.cancel("j")
    old.work()
    old.leave()
    Process(coordinator, 3).work()
    assert coordinator.status("j").state == "running"
    counted = lanes_of(store, 3)["counted"]
    assert (counted.predecessors, counted.afresh) == ((lanes_of(store, 1)["counted"].id,), False)
