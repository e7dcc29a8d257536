"""Another coordinator, or a later start, goes on with a job whose processes fell silent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.store import Store, stored_jobs
from anabranch.errors import ConflictError, NotFoundError, NotLeadingError, StoreUnavailableError
from anabranch.model.lane import Lane
from anabranch.protocol.commands import ScaleRequest
from anabranch.protocol.deployment import DeployRequest, RollbackRequest
from tests.unit.coordinator.helpers import FIRST, SECOND, Clock, Seat, plan, wanted
from tests.unit.coordinator.silent import GRACE, LEASE, asks, begun, coordinator, lanes_of, leave, made, planned

__all__ = ["coordinator"]  # fixtures


# Stopping


def test_stopping_waits_for_the_silent_to_be_fenced(coordinator: Coordinator, clock: Clock) -> None:
    begun(coordinator)
    coordinator.stop("delays")
    clock.at += LEASE + GRACE - 0.01
    coordinator.tick()
    assert coordinator.status("delays").state == "stopping"
    clock.at += 0.02
    coordinator.tick()
    assert coordinator.status("delays").state == "stopping"
    [first, second] = (fence.lane for fence in coordinator.fences())
    coordinator.fenced(first)
    assert coordinator.status("delays").state == "stopping"
    coordinator.fenced(second)
    assert coordinator.status("delays").state == "stopped"


def test_a_job_goes_on_after_it_was_stopped(coordinator: Coordinator, store: Store, clock: Clock) -> None:
    seat = begun(coordinator)
    with pytest.raises(ConflictError, match="is running already"):
        coordinator.resume("delays")
    coordinator.stop("delays")
    seat.report("ended", offset=4)
    assert coordinator.status("delays").state == "stopped"
    for again in (coordinator, made(store, clock)):
        assert again.resume("delays") == 1
        assert [event.why for event in again.events("delays", 1)] == ["the user started it again"]
        newer = Seat(again, pid=int(again is coordinator) + 5)
        assert [[p.offset for p in one.lane.final] for one in newer.beat().wanted] == [[4], [4]]
        again.stop("delays")
        newer.report("ended", offset=4)
        assert again.status("delays").state == "stopped"
    assert not seat.beat().alive
    with pytest.raises(NotFoundError, match="no job 'nobody'"):
        coordinator.resume("nobody")


def test_a_job_whose_code_is_elsewhere_can_t_go_on_here(store: Store, clock: Clock) -> None:
    """As one that ``anabranch run`` ran."""
    Coordinator(store, clock).start(plan())
    coordinator = made(store, clock)
    assert not coordinator.adopt("delays")
    assert coordinator.status("delays").served is False
    for ask in (coordinator.resume, coordinator.running):
        with pytest.raises(ConflictError, match="the code of job 'delays' is not here"):
            ask("delays")


def test_a_failure_is_forgotten_when_the_job_is_started_again(coordinator: Coordinator, store: Store) -> None:
    begun(coordinator).report("failed", error="boom")
    assert coordinator.status("delays").state == "failed"
    coordinator.resume("delays")
    assert (coordinator.status("delays").state, coordinator.status("delays").error) == ("starting", None)
    assert stored_jobs.status(store, "delays").error is None


# Another coordinator goes on


def test_another_coordinator_waits_a_lease_before_it_takes_anything(
    coordinator: Coordinator, store: Store, clock: Clock
) -> None:
    seat = begun(coordinator)
    before = lanes_of(store)
    clock.at += 100 * LEASE
    other = made(store, clock)
    assert other.adopt("delays")
    clock.at += LEASE + GRACE - 0.01
    other.tick()
    assert lanes_of(store) == before
    assert other.fences() == []
    assert other.status("delays").state == "running"
    seat.coordinator = other
    seat.number = 0  # numbers count from what this coordinator has heard
    answer = seat.report("running")
    assert (answer.alive, wanted(answer)) == (True, [FIRST, SECOND])
    assert {one.lane.epoch for one in answer.wanted} == {seat.me.epoch}
    clock.at += LEASE + GRACE
    other.tick()
    assert [fence.lane.id for fence in other.fences()] == [FIRST, SECOND]


def test_another_coordinator_stops_a_job_that_was_being_stopped(
    coordinator: Coordinator, store: Store, clock: Clock
) -> None:
    seat = begun(coordinator)
    coordinator.stop("delays")
    other = made(store, clock)
    assert other.adopt("delays")
    assert other.status("delays").state == "stopping"
    seat.coordinator = other
    assert seat.report("running").wanted == ()
    assert seat.report("ended").done
    assert other.status("delays").state == "stopped"


@pytest.mark.parametrize(
    "command",
    [
        lambda coordinator, _: coordinator.start(planned()),
        lambda coordinator, _: coordinator.resume("delays"),
        lambda coordinator, _: coordinator.stop("delays"),
        lambda coordinator, _: coordinator.scale("delays", ScaleRequest(factor=2)),
        lambda coordinator, _: coordinator.deploy("delays", DeployRequest(start=planned())),
        lambda coordinator, _: coordinator.rollback("delays", RollbackRequest()),
        lambda coordinator, container: coordinator.fence(container),
    ],
    ids=["start", "resume", "stop", "scale", "deploy", "rollback", "fence"],
)
def test_nothing_is_decided_about_a_job_that_is_not_adopted_yet(
    coordinator: Coordinator, store: Store, clock: Clock, command: Callable[[Coordinator, str], object]
) -> None:
    """Its processes may be at work: a start would give their seats away without a lease or a fence."""
    seat = begun(coordinator)
    before, stored = lanes_of(store), store.deployment("delays")
    other = made(store, clock)
    with pytest.raises(NotLeadingError, match="doesn't serve job 'delays' now"):
        command(other, seat.me.container)
    assert (lanes_of(store), store.deployment("delays")) == (before, stored)
    assert other.adopt("delays")
    seat.coordinator, seat.number = other, 0
    assert seat.report("running").alive


def test_a_coordinator_that_gave_up_its_jobs_stops_nobody(coordinator: Coordinator, store: Store, clock: Clock) -> None:
    """Between two leaders nobody is told to stop: whether its seat is lost isn't known."""
    seat = begun(coordinator)
    coordinator.abandon()
    with pytest.raises(NotLeadingError):
        seat.report("running")
    with pytest.raises(NotLeadingError):
        asks(coordinator, 1)
    coordinator.adopt("delays")
    assert seat.report("running").alive


def test_kills_at_every_durable_step(clock: Clock) -> None:
    """A coordinator dies just before, or just after, any of the steps from a silence to the new process; others go on
    from the store, and each epoch is given once."""
    steps = ("expel", "put_lanes", "register", "leave", "move_deployment")
    done = 0
    for after in (False, True):
        for nth in range(100):
            if not drill(clock, steps, nth, after=after):
                break
            done += 1
    assert done >= 2 * 8


class KilledError(Exception):
    pass


def drill(clock: Clock, steps: tuple[str, ...], nth: int, *, after: bool) -> bool:
    """Whether there was an ``nth`` step to die at."""
    store = Store("sqlite://")
    first = made(store, clock)
    first.start(planned(until_caught_up=True))
    former = begun(first)
    writes = [-1]

    def killing(write: Callable[..., Any]) -> Callable[..., Any]:
        def killed(*given: Any) -> Any:
            writes[0] += 1
            if writes[0] == nth and not after:
                raise KilledError
            result = write(*given)
            if writes[0] == nth:
                raise KilledError
            return result

        return killed

    for step in steps:
        setattr(store, step, killing(getattr(store, step)))
    coordinator, newer, epochs = first, None, [former.me.epoch]
    for _ in range(60):
        clock.at += LEASE / 2
        try:
            coordinator.tick()
            for fence in coordinator.fences():
                assert fence.lane.epoch > former.me.epoch
                coordinator.fenced(fence.lane)
            if newer is None:
                if former.me.container in {one.id for one in store.containers("delays")} or any(
                    one.unfenced for one in lanes_of(store).values()
                ):
                    assert asks(coordinator, 2).seat is None
                    continue
                newer = Seat(coordinator, pid=2)
                assert newer.me.epoch > max(epochs)
                epochs.append(newer.me.epoch)
            newer.coordinator = coordinator
            if not store.containers("delays"):  # it has left, and could not be told
                break
            answer = newer.beat()
            assert answer.alive
            assert {one.lane.epoch for one in answer.wanted} <= {newer.me.epoch}
            newer.report("running", folder_epoch=newer.me.epoch)
            newer.report("ended", offset=3, folder_epoch=newer.me.epoch)
            leave(newer, (FIRST, "ended"), (SECOND, "ended"))
            if not store.containers("delays"):
                break
        except KilledError:
            coordinator = made(store, clock)
            coordinator.adopt("delays")
    found = lanes_of(store)
    assert store.deployment("delays").state == "stopped"  # type: ignore[union-attr]
    assert not former_may_write(found)
    former.coordinator = coordinator
    assert not former.report("running").alive
    assert lanes_of(store) == found
    return writes[0] >= nth


def former_may_write(found: dict[str, Lane]) -> bool:
    return any(one.unfenced or one.abandoned or one.folder_epoch < one.epoch for one in found.values())


def test_an_expulsion_of_which_nothing_is_known_is_done_again(
    coordinator: Coordinator, store: Store, clock: Clock
) -> None:
    """The database was lost while it was being stored: the process, heard again, must not go on as if it weren't."""
    seat = begun(coordinator)
    durable = store.expel

    def broken(*given: Any) -> list[Lane]:
        durable(*given)
        raise StoreUnavailableError("the connection broke", "")

    store.expel = broken  # type: ignore[method-assign]
    clock.at += LEASE + GRACE
    with pytest.raises(StoreUnavailableError):
        coordinator.tick()
    store.expel = durable  # type: ignore[method-assign]
    assert not seat.report("running").alive
    assert [fence.lane for fence in coordinator.fences()] == list(lanes_of(store).values())
    assert all(one.unfenced for one in lanes_of(store).values())
