"""One deployment follows another: who closes what, who gets which seat, and how a coordinator goes on with it."""

from __future__ import annotations

import msgspec
import pytest

from anabranch.coordinator.jobs import standbys
from anabranch.coordinator.store import Store
from anabranch.errors import ConflictError, NotFoundError, UsageError
from anabranch.model.lane import LaneState
from anabranch.protocol.commands import ScaleRequest
from anabranch.protocol.deployment import DeployRequest, DeployResult, RollbackRequest
from anabranch.protocol.lane_report import LanePhase
from anabranch.protocol.status import LaunchStatus
from tests.unit.coordinator.helpers import Clock
from tests.unit.coordinator.versions import (
    Process,
    coordinator_on,
    deploy,
    job,
    lanes_of,
    relieved,
    running,
    start,
    with_settings,
)


def test_a_version_follows_in_other_processes(store: Store) -> None:
    coordinator, (old,) = running(store)
    told = deploy(coordinator, job(more=True))
    assert (told.deployment, told.version_of, len(told.closing), len(told.lanes)) == (2, 2, 2, 2)
    assert coordinator.status("j").state == "changing"
    assert coordinator.running("j").deployment == 2
    assert all(each.closing for each in old.beat().wanted)
    assert not old.answer.coming  # its code knows nothing of them
    new = relieved(old, 2)
    assert {each.lane.deployment for each in new.work().wanted} == {2}
    status = coordinator.status("j")
    assert (status.state, status.deployment, status.generation) == ("running", 2, 1)
    assert [each.deployment for each in status.containers if each.gone is None] == [2]
    after = lanes_of(store, 2)
    assert (after["counted"].first_batch, after["counted"].watermark) == (4, None)
    assert {position.offset for lane in after.values() for position in lane.starting} == {7}
    assert {lane.state for lane in lanes_of(store, 1).values()} == {LaneState.CLOSED}
    deployments = [store.deployment("j", number) for number in (1, 2)]
    assert [each and each.state for each in deployments] == ["stopped", "running"]


def test_the_program_is_that_of_the_lanes_which_are_to_be_closed(store: Store) -> None:
    """If the process dies that should close them, the next one gets its code."""
    clock = Clock()
    coordinator = coordinator_on(store, clock)
    coordinator.start(start(job()))
    old = Process(coordinator, 1)
    old.work()
    deploy(coordinator, job(more=True))
    clock.at += 100
    coordinator.tick()
    early = Process(coordinator, 1)
    assert (early.seat, early.me.done) == (None, False)
    for fence in coordinator.fences():
        coordinator.fenced(fence.lane)
    assert coordinator.running("j").deployment == 1
    assert Process(coordinator, 2).me.done  # else it might be the one process that somebody lets run
    again = Process(coordinator, 1)
    assert again.seat == "0"
    assert coordinator.running("j").deployment == 2
    again.work()
    new = Process(coordinator, 2)
    again.leave()
    assert new.ask() == "0"
    new.work()
    assert coordinator.status("j").state == "running"


def test_a_process_with_code_that_nobody_needs_is_sent_away(store: Store) -> None:
    coordinator, (old,) = running(store)
    warm = Process(coordinator, 1)
    assert (warm.seat, warm.me.done) == (None, False)
    deploy(coordinator, job(more=True))
    assert warm.ask() is None
    assert warm.me.done
    relieved(old, 2).work()
    late = Process(coordinator, 1)
    assert late.me.done


def test_nothing_ends_before_a_container_with_the_new_code_is_warm(store: Store) -> None:
    coordinator, (old,) = running(store)
    coordinator.launched("j", LaunchStatus(wanted=1, running=1, logs="logs"), [])
    deploy(coordinator, job(more=True))
    new = Process(coordinator, 2, warm=False)
    assert not any(each.closing for each in old.beat().wanted)
    new.registration = msgspec.structs.replace(new.registration, warm=True)
    assert new.ask() is None
    assert all(each.closing for each in old.beat().wanted)


def test_lanes_end_when_the_containers_of_the_next_version_wait_for_the_cores_that_the_lanes_keep(
    store: Store,
) -> None:
    """The change would otherwise wait for the containers, and the containers for the change."""
    coordinator, (old,) = running(store)
    coordinator.launched("j", LaunchStatus(wanted=1, running=1, logs="logs"), [])
    deploy(coordinator, job(more=True))
    new = Process(coordinator, 2, warm=False, waits_for_slots=True)
    old.work()
    old.leave()
    assert new.ask() is None, "it has no cores to run lanes with"
    (demand,) = coordinator.demands([])
    assert (demand.standing_by, demand.waiting) == (frozenset(), {new.registration.execution})
    new.registration = msgspec.structs.replace(new.registration, waits_for_slots=False)
    assert new.ask() == "0"
    new.work()
    assert coordinator.status("j").state == "running"


def test_a_container_that_waits_for_task_slots_keeps_no_standbys(store: Store) -> None:
    coordinator, _ = running(store)
    waiting = Process(coordinator, 1, warm=False, waits_for_slots=True)
    running_job = coordinator.registry.jobs["j"]
    assert waiting.registration.execution not in standbys.members(running_job)
    waiting.registration = msgspec.structs.replace(waiting.registration, waits_for_slots=False)
    assert waiting.ask() is None
    assert waiting.registration.execution in standbys.members(running_job)


def test_seats_are_given_one_by_one(store: Store) -> None:
    coordinator, (first, second) = running(store, containers=2)
    deploy(coordinator, job(more=True), containers=2)
    new = relieved(first, 2)
    assert {each.lane.seat for each in new.work().wanted} == {first.seat}
    assert coordinator.status("j").state == "changing"
    other = relieved(second, 2)
    for process in (new, other, new):
        process.work()
    assert coordinator.status("j").state == "running"


def test_with_a_launcher_nothing_ends_before_the_next_ones_are_there(store: Store) -> None:
    coordinator, (old,) = running(store)
    coordinator.launched("j", LaunchStatus(wanted=1, running=1), [])
    deploy(coordinator, job(more=True))
    (demand,) = coordinator.demands([])
    assert (demand.wanted, demand.spare, demand.busy) == (2, 0, False)
    assert not any(each.closing for each in old.beat().wanted)
    new = Process(coordinator, 2)
    assert all(each.closing for each in old.beat().wanted)
    old.work()
    old.leave()
    assert new.ask() == "0"
    new.work()
    (demand,) = coordinator.demands([])
    assert (demand.wanted, coordinator.status("j").state) == (1, "running")


@pytest.mark.parametrize("launched", [True, False])
def test_nothing_ends_early_because_the_jobs_were_read_from_the_store_again(store: Store, launched: bool) -> None:
    """Whether or not the launcher had reported before the connection to the store was lost."""
    coordinator, (old,) = running(store)
    coordinator.registry.has_launcher = not launched
    if launched:
        coordinator.launched("j", LaunchStatus(wanted=1, running=1), [])
    deploy(coordinator, job(more=True))
    coordinator.registry.unsure = True
    assert not any(each.closing for each in old.beat().wanted)
    Process(coordinator, 2)
    assert all(each.closing for each in old.beat().wanted)


@pytest.mark.parametrize("has_launcher", [True, False])
def test_another_leader_with_a_launcher_ends_nothing_before_the_next_ones_are_there(
    store: Store, has_launcher: bool
) -> None:
    coordinator, (old,) = running(store)
    coordinator.launched("j", LaunchStatus(wanted=1, running=1), [])
    deploy(coordinator, job(more=True))
    old.coordinator = other = coordinator_on(store)
    other.registry.has_launcher = has_launcher
    other.adopt("j")
    assert any(each.closing for each in old.beat().wanted) is not has_launcher
    Process(other, 2)
    assert all(each.closing for each in old.beat().wanted)


def test_containers_that_would_only_stand_by_wait_until_lanes_have_written_after_a_change(store: Store) -> None:
    coordinator, (process,) = running(store, warm=1)

    def demand() -> tuple[int, int, bool]:
        (its,) = coordinator.demands([])
        return its.wanted, its.spare, its.busy

    assert demand() == (2, 1, False)
    coordinator.scale("j", ScaleRequest(factor=2))
    assert demand() == (2, 1, True)
    process.work()
    assert coordinator.status("j").state == "running"
    assert demand() == (2, 1, True)
    process.reports = {name: each.changed(first_output=5000.0) for name, each in process.reports.items()}
    process.beat()
    coordinator.tick()
    assert demand() == (2, 1, False)
    lane = next(each.id for each in store.lanes("j").values() if each.state is LaneState.RUNNING)
    process.reports[lane] = process.reports[lane].changed(phase=LanePhase.STARTING)
    process.beat()
    assert demand() == (2, 1, True), "a lane is being started again"


def test_a_deploy_waits_for_the_next_containers_before_any_that_would_only_stand_by(store: Store) -> None:
    coordinator, (old,) = running(store)
    coordinator.launched("j", LaunchStatus(wanted=1, running=1), [])

    def is_preparing() -> bool:
        (its,) = coordinator.demands([])
        return its.preparing

    assert not is_preparing()
    deploy(coordinator, job(more=True))
    assert is_preparing()
    new = Process(coordinator, 2)
    assert not is_preparing()
    old.work()
    old.leave()
    new.ask()
    new.work()
    assert (is_preparing(), coordinator.status("j").state) == (False, "running")


def test_a_failover_waits_for_the_next_container_before_any_that_would_only_stand_by(store: Store) -> None:
    clock = Clock()
    coordinator = coordinator_on(store, clock)
    coordinator.start(start(job()))
    Process(coordinator).work()
    (demand,) = coordinator.demands([])
    assert not demand.preparing
    clock.at += 100
    coordinator.tick()
    for fence in coordinator.fences():
        coordinator.fenced(fence.lane)
    (demand,) = coordinator.demands([])
    assert demand.preparing
    Process(coordinator).work()
    (demand,) = coordinator.demands([])
    assert not demand.preparing


def test_a_rollback_deploys_the_version_before(store: Store) -> None:
    coordinator, (old,) = running(store)
    deploy(coordinator, job(more=True))
    new = relieved(old, 2)
    new.work()
    told = coordinator.rollback("j", RollbackRequest())
    assert (told.deployment, told.version_of) == (3, 1)
    assert "below is no longer written" in told.notes
    back = relieved(new, 3)
    back.work()
    assert coordinator.status("j").state == "running"
    assert coordinator.running("j").program.artifact == "a" * 64
    assert store.graph("j", 3) == store.graph("j", 1)
    with pytest.raises(ConflictError, match="no version before this one"):
        coordinator.rollback("j", RollbackRequest())
    deploy(coordinator, job(more=True))
    relieved(back, 4).work()
    assert coordinator.rollback("j", RollbackRequest(dry=True)).version_of == 1


def test_a_version_whose_autosizer_may_not_choose_the_present_factor_says_so(store: Store) -> None:
    coordinator, _ = running(store)
    limits = {"min": 2, "max": 8}
    made = with_settings(start(job(more=True)), {"job": {"autoscale": limits, "artifact": "image"}})
    told = coordinator.deploy("j", DeployRequest(start=made, dry=True))
    (note,) = (each for each in told.notes if "autosizer" in each)
    assert note.startswith("factor 1 isn't from 2 to 8, so it stays")
    assert note.endswith("anabranch scale j --factor 2")
    made = with_settings(made, {"job": {"autoscale": {"max": 8}, "artifact": "image"}})
    assert not any("autosizer" in each for each in coordinator.deploy("j", DeployRequest(start=made, dry=True)).notes)


def test_a_rollback_goes_by_the_same_check(store: Store) -> None:
    coordinator, (old,) = running(store)
    deploy(coordinator, job(state="other"), drop_state=("counted",))
    relieved(old, 2).work()
    with pytest.raises(ConflictError, match="was called 'other', and its state belongs to that name"):
        coordinator.rollback("j", RollbackRequest())
    told = coordinator.rollback("j", RollbackRequest(drop_state=("other",)))
    assert "counted begins without state, at the current positions" in told.notes


def test_what_cannot_follow_is_refused_and_nothing_happens(store: Store) -> None:
    coordinator, _ = running(store)
    before = store.events("j", 100)
    with pytest.raises(ConflictError, match="the state of agg 'counted'"):
        deploy(coordinator, job(size="max(n)"))
    with pytest.raises(UsageError, match="is of job 'j', not 'k'"):
        coordinator.deploy("k", DeployRequest(start=start(job())))
    with pytest.raises(NotFoundError):
        coordinator.rollback("nobody", RollbackRequest())
    assert deploy(coordinator, job(more=True), dry=True).deployment == 2
    assert store.events("j", 100) == before
    assert coordinator.status("j").deployment == 1


def test_a_job_that_ran_in_one_process_goes_on_on_a_coordinator_and_takes_another_version(store: Store) -> None:
    coordinator = coordinator_on(store)
    coordinator.start(msgspec.structs.replace(start(job()), program=None))
    only = Process(coordinator, 1)
    only.work()
    with pytest.raises(ConflictError, match="runs in one process"):
        deploy(coordinator, job(more=True))
    coordinator.stop("j")
    for lane in only.reports:
        only.reports[lane] = msgspec.structs.replace(only.reports[lane], phase=LanePhase.ENDED)
    only.leave()
    assert coordinator.status("j").state == "stopped"
    assert coordinator.start(start(job())) == 1
    old = Process(coordinator, 1)
    old.work()
    assert deploy(coordinator, job(more=True)).deployment == 2
    relieved(old, 2).work()
    assert coordinator.status("j").state == "running"


def test_a_version_whose_code_is_not_stored_any_more_is_not_rolled_back_to(store: Store) -> None:
    coordinator = coordinator_on(store)
    coordinator.start(with_settings(start(job()), {}))
    former = Process(coordinator, 1)
    former.work()
    coordinator.deploy("j", DeployRequest(start=with_settings(start(job(more=True), code="b" * 64), {})))
    relieved(former, 2).work()
    with pytest.raises(ConflictError, match="the code of deployment 1 of job 'j' is no longer in the store") as caught:
        coordinator.rollback("j", RollbackRequest())
    assert "anabranch deploy JOB.py" in caught.value.cure
    assert coordinator.status("j").deployment == 2
    store.put_artifact("a" * 64, b"code")
    assert coordinator.rollback("j", RollbackRequest()).version_of == 1


def test_the_same_request_twice_is_one_deployment(store: Store) -> None:
    coordinator, _ = running(store)
    assert deploy(coordinator, job(more=True), request="r").deployment == 2
    assert deploy(coordinator, job(more=True), request="r") == DeployResult(deployment=2, version_of=2, repeated=True)
    with pytest.raises(ConflictError, match="is changing"):
        deploy(coordinator, job(more=True), request="s")


def test_a_request_that_was_undone_is_answered_with_its_own_deployment(store: Store) -> None:
    coordinator, _ = running(store)
    deploy(coordinator, job(more=True), request="r")
    coordinator.cancel("j")
    assert coordinator.status("j").deployment == 3
    assert deploy(coordinator, job(more=True), request="r") == DeployResult(deployment=2, version_of=2, repeated=True)
    assert coordinator.status("j").deployment == 3
