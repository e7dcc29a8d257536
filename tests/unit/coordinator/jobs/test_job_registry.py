"""Holding a job: who may, what is seen then, and that it is let go of."""

from __future__ import annotations

import threading

import pytest

from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.jobs.registry import JobRegistry
from anabranch.coordinator.store import Store
from anabranch.errors import ConflictError, NotFoundError, NotLeadingError, StoreUnavailableError
from anabranch.protocol.deployment import Program
from tests.unit.coordinator.helpers import Clock, plan

PROGRAM = Program(artifact="0" * 64, file="delays.py", settings={}, schemas={})


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator(Store("sqlite://"), grace=2.0)


@pytest.fixture
def registry(coordinator: Coordinator) -> JobRegistry:
    coordinator.start(plan(program=PROGRAM))
    return coordinator.registry


def test_a_job_that_nobody_knows_can_t_be_held(registry: JobRegistry) -> None:
    with pytest.raises(NotFoundError, match="there is no job 'nobody'"), registry.locked("nobody"):
        pass


def test_a_job_that_is_not_served_can_t_be_held(coordinator: Coordinator, registry: JobRegistry) -> None:
    coordinator.stop("delays")
    assert coordinator.release("delays")
    with pytest.raises(ConflictError, match="its last deployment was left stopped"), registry.locked("delays"):
        pass


def test_a_job_that_is_not_adopted_yet_can_t_be_held_and_counts_as_running(
    coordinator: Coordinator, registry: JobRegistry
) -> None:
    coordinator.abandon()
    with pytest.raises(NotLeadingError, match="doesn't serve job 'delays' now"), registry.locked("delays"):
        pass
    assert coordinator.adopt("delays")
    with registry.locked("delays"):
        pass


def test_one_at_a_time_holds_a_job_until_it_lets_go_whatever_happened(registry: JobRegistry) -> None:
    held = threading.Event()

    def other() -> None:
        with registry.locked("delays"):
            held.set()

    def fails() -> None:
        with registry.locked("delays") as running_job:
            thread.start()
            assert not held.wait(0.1)
            raise ConflictError(f"something about {running_job.job}")

    thread = threading.Thread(target=other)
    with pytest.raises(ConflictError, match="something about delays"):
        fails()
    thread.join(10)
    assert held.is_set()


def test_after_a_step_whose_answer_was_lost_a_job_is_as_the_store_has_it(registry: JobRegistry) -> None:
    with registry.locked("delays") as before:
        before.known.clear()
    with registry.locked("delays") as same:
        assert same is before

    def lost() -> None:
        raise StoreUnavailableError("no answer", "try again")

    with pytest.raises(StoreUnavailableError), registry.locked("delays"):
        registry.write(lost)
    with registry.locked_as_seen() as jobs:
        assert jobs["delays"] is before
    with registry.locked("delays") as after:
        assert after is not before
        assert len(after.known) == 2


def test_a_step_whose_answer_was_lost_does_not_make_a_launcher_try_again() -> None:
    clock = Clock()
    coordinator = Coordinator(Store("sqlite://"), clock, grace=2.0)
    coordinator.start(plan(program=PROGRAM))
    (before,) = coordinator.demands(())
    clock.at += 100

    def lost() -> None:
        raise StoreUnavailableError("no answer", "try again")

    with pytest.raises(StoreUnavailableError), coordinator.registry.locked("delays"):
        coordinator.registry.write(lost)
    (after,) = coordinator.demands(())
    assert after.sure_from > before.sure_from, "the job was read from the store again"
    assert after.begun == before.begun
    coordinator.abandon()
    assert coordinator.adopt("delays")
    (anew,) = coordinator.demands(())
    assert anew.begun == clock.at
