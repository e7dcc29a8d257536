"""Plans that are made while no job is held: as they would be made of a held job, and applied to no other one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.coordinator.commands import off_lock, scale
from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.jobs import transitions
from anabranch.coordinator.store import Store
from anabranch.errors import AnabranchError, ConflictError
from anabranch.model.lane import Lane
from anabranch.model.outline import Basis, digest
from anabranch.protocol.commands import AssignRequest, ExpandRequest, RewindRequest, ScaleRequest, ScaleResult
from anabranch.protocol.container import Registration
from tests.unit.coordinator.helpers import Clock
from tests.unit.coordinator.workers import JOB, Worker, running


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator(Store("sqlite://"), clock=Clock(), lease=10, grace=2)


def during_plans(patch: pytest.MonkeyPatch, act: Callable[[], None]) -> list[int]:
    """Let something happen in the middle of each plan; gives a list that has an item for each of them."""
    plan, made = transitions.rescaled, list[int]()

    def rescaled(*args: Any) -> Any:
        made.append(len(made))
        act()
        return plan(*args)

    patch.setattr(transitions, "rescaled", rescaled)
    return made


@pytest.mark.parametrize("dry", [True, False])
def test_others_get_at_a_job_while_it_is_planned(
    coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch, dry: bool
) -> None:
    running(coordinator)
    seen: list[str] = []

    def look() -> None:
        other = threading.Thread(target=lambda: seen.append(coordinator.status(JOB).state), daemon=True)
        other.start()
        other.join(10)

    during_plans(monkeypatch, look)
    coordinator.scale(JOB, ScaleRequest(factor=4, dry=dry))
    assert seen == ["running"]


def test_a_job_that_has_changed_meanwhile_is_planned_anew(
    coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = running(coordinator)
    once = [4]

    def scale_first() -> None:
        if once:
            coordinator.scale(JOB, ScaleRequest(factor=once.pop()))
            worker.turns(6)

    made = during_plans(monkeypatch, scale_first)
    told = coordinator.scale(JOB, ScaleRequest(factor=16))
    assert (told.generation, told.factor, len(made)) == (3, 16, 3)
    assert {lane.factor for lane in told.closing} == {4}


def test_a_job_that_changes_all_the_time_is_left_alone(
    coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = running(coordinator)
    patched = pytest.MonkeyPatch()
    factors = iter([2, 4] * 20)

    def always() -> None:
        patched.undo()
        coordinator.scale(JOB, ScaleRequest(factor=next(factors)))
        worker.turns(6)
        during_plans(patched, always)

    during_plans(patched, always)
    with pytest.raises(ConflictError, match="has changed each time that it was planned"):
        coordinator.scale(JOB, ScaleRequest(factor=16))
    patched.undo()
    assert coordinator.status(JOB).factor != 16


def test_one_that_fails_while_it_is_planned_is_not_changed(
    coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = running(coordinator)

    def fail() -> None:
        worker.fails = lambda lane: True
        worker.turns(2)

    during_plans(monkeypatch, fail)
    with pytest.raises(ConflictError):
        coordinator.scale(JOB, ScaleRequest(factor=4))
    assert coordinator.status(JOB).generation == 1


@pytest.mark.long
@settings(max_examples=30)
@given(
    start=st.tuples(st.sampled_from([1, 2, 4]), st.integers(1, 3)),
    changes=st.lists(st.tuples(st.sampled_from([1, 2, 4, 8]), st.integers(1, 3)), max_size=3),
    then=st.tuples(st.sampled_from([1, 2, 4, 8]), st.integers(1, 3)),
)
def test_a_plan_for_a_snapshot_is_the_one_for_the_job_that_is_held(
    start: tuple[int, int], changes: list[tuple[int, int]], then: tuple[int, int]
) -> None:
    coordinator = Coordinator(Store("sqlite://"), clock=Clock(), lease=10, grace=2)
    factor, containers = start
    workers = [running(coordinator, factor=factor, containers=1, partitions=4)]
    for factor, containers in changes:
        coordinator.scale(JOB, ScaleRequest(factor=factor, containers=containers))
        while len(workers) < containers:
            workers.append(Worker(coordinator, str(len(workers)), pid=len(workers) + 1))
        for _ in range(5):
            for worker in workers:
                worker.turn()
    request = ScaleRequest(factor=then[0], containers=then[1])

    def planned(take: bool) -> Any:
        with coordinator.registry.locked(JOB) as running_job:
            snapshot = off_lock.take(coordinator.registry, running_job)
            if not take:
                return outcome(lambda: scale.plan(running_job, snapshot.present, request, False))
        return outcome(lambda: scale.plan(snapshot.running_job, snapshot.present, request, False))

    assert planned(take=True) == planned(take=False)


def outcome(plan: Callable[[], transitions.NextGeneration | None]) -> Any:
    """What comes of a plan, whatever new lanes are called."""
    try:
        found = plan()
    except AnabranchError as error:
        return str(error)
    if found is None:
        return None
    result = found.result
    assert isinstance(result, ScaleResult)
    rest = msgspec.structs.replace(result, lanes=(), closing=())
    return found.ending, found.who, found.why, rest, digest(result.closing, result.lanes)


def test_a_snapshot_stays_as_it_was_whatever_becomes_of_the_job(coordinator: Coordinator) -> None:
    worker = running(coordinator)

    def waits(number: int) -> None:
        coordinator.register(Registration(job=JOB, execution=f"another-{number}", host="here", pid=number))

    waits(10)
    snapshot = coordinator.reads.snapshot(JOB)
    assert snapshot is not None
    before = coordinator.registry.status(snapshot)
    waits(11)
    coordinator.scale(JOB, ScaleRequest(factor=4))
    worker.turns(6)
    assert coordinator.registry.status(snapshot) == before
    assert (set(snapshot.seats.resting), set(snapshot.seats.asked)) == ({"another-10"}, {"another-10"})
    assert coordinator.status(JOB).standing_by == 2


def test_a_brief_answer_has_the_same_lanes_in_few_bytes(coordinator: Coordinator) -> None:
    running(coordinator)
    whole = coordinator.scale(JOB, ScaleRequest(factor=4, dry=True))
    brief = coordinator.scale(JOB, ScaleRequest(factor=4, dry=True, brief=True))
    assert (brief.closing, brief.lanes, whole.outline) == ((), (), None)
    assert brief.basis == whole.basis == Basis(deployment=1, generation=1, digest=whole.basis.digest)  # type: ignore[union-attr]
    outline = brief.outline
    assert outline is not None
    assert [row[0] for row in outline.closing] == [lane.id for lane in whole.closing]
    assert [row[1:] for row in outline.starting] == [row_of(lane) for lane in whole.lanes]
    assert outline.kept == len(coordinator.status(JOB).lanes) - len(whole.closing)


def row_of(lane: Lane) -> tuple[Any, ...]:
    return (lane.stage, lane.seat, len(lane.tasks), len(lane.ssps), lane.stateful, lane.predecessors)


def test_a_plan_is_applied_to_what_it_was_made_for(coordinator: Coordinator) -> None:
    running(coordinator)
    dry = coordinator.scale(JOB, ScaleRequest(factor=4, dry=True))
    told = coordinator.scale(JOB, ScaleRequest(factor=4, expect=dry.basis, request="mine"))
    assert (told.generation, told.repeated) == (2, False)
    again = coordinator.scale(JOB, ScaleRequest(factor=4, expect=dry.basis, request="mine"))
    assert (again.generation, again.repeated) == (2, True)
    with pytest.raises(ConflictError, match="generation 1, and is deployment 1, generation 2 now"):
        coordinator.scale(JOB, ScaleRequest(factor=4, expect=dry.basis, request="another"))


@pytest.mark.parametrize(
    "ask",
    [
        lambda coordinator, basis: coordinator.scale(JOB, ScaleRequest(factor=4, expect=basis)),
        lambda coordinator, basis: coordinator.assign(JOB, AssignRequest(expect=basis)),
        lambda coordinator, basis: coordinator.expand(JOB, ExpandRequest(expect=basis)),
        lambda coordinator, basis: coordinator.rewind(
            JOB, RewindRequest(to={"embedded/in/0": 0}, state="keep", expect=basis)
        ),
    ],
    ids=["scale", "assign", "expand", "rewind"],
)
def test_a_plan_for_another_generation_is_refused_and_says_which(
    ask: Callable[[Coordinator, Basis], Any],
) -> None:
    coordinator = Coordinator(
        Store("sqlite://"),
        clock=Clock(),
        lease=10,
        grace=2,
        counting=lambda job, given, named, matched: {"embedded/in": 2},
    )
    running(coordinator)
    with pytest.raises(ConflictError, match="as deployment 1, generation 7, and is deployment 1, generation 1 now"):
        ask(coordinator, Basis(deployment=1, generation=7))
    assert coordinator.status(JOB).generation == 1


def test_a_plan_of_which_something_else_comes_now_is_refused(coordinator: Coordinator) -> None:
    running(coordinator)
    dry = coordinator.scale(JOB, ScaleRequest(factor=8, dry=True))
    with pytest.raises(ConflictError, match="would differ from the plan"):
        coordinator.scale(JOB, ScaleRequest(factor=4, expect=dry.basis))
    assert coordinator.status(JOB).generation == 1
