"""What the store forgets by itself: old events, and the code of versions long gone."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from structlog.testing import capture_logs

from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.store import Event, Store
from anabranch.coordinator.store.sweep_schedule import Retain, SweepSchedule
from anabranch.coordinator.store.sweeping import SweepResult
from anabranch.errors import StoreUnavailableError
from anabranch.model.deployment_state import DeploymentState
from anabranch.model.lane import LaneState
from tests.unit.coordinator import workers
from tests.unit.coordinator.helpers import Clock
from tests.unit.coordinator.programs import PROGRAM
from tests.unit.coordinator.workers import JOB, Worker

HOUR = 3600.0


def deployed(store: Store, number: int, code: str, state: LaneState = LaneState.CLOSED, again: int = 0) -> None:
    store.put_artifact(code, b"code")
    start = workers.start()
    model = msgspec.structs.replace(start.model, run_id=number, generation=1, again=again)
    lanes = tuple(msgspec.structs.replace(lane, deployment=number, state=state) for lane in start.lanes)
    program = msgspec.structs.replace(PROGRAM, artifact=code)
    start = msgspec.structs.replace(start, model=model, lanes=lanes, program=program)
    store.create_deployment(
        start, DeploymentState.PLANNED, Event(kind="other", job=JOB, at=float(number), who="user", what="planned")
    )


def there(store: Store) -> set[str]:
    return {code for code in ("a", "b", "c", "d", "coming") if store.artifact(code) is not None}


def test_the_newest_events_of_each_job_are_kept(store: Store, clock: Clock) -> None:
    coordinator = Coordinator(store, clock=clock, lease=10, grace=2, retain=Retain(events=5))
    coordinator.start(workers.start())
    worker = Worker(coordinator)
    worker.turns()
    store.note([Event(kind="other", job=JOB, at=float(n), who="user", what=f"event {n}") for n in range(20)])
    coordinator.tick()
    assert len(coordinator.events(JOB)) > 20, "not at once"
    clock.at += 61
    worker.turn()
    coordinator.tick()
    assert [event.what for event in store.events(JOB, 100)] == [f"event {n}" for n in range(15, 20)]
    store.note([Event(kind="other", job=JOB, at=1.0, who="user", what="one more")])
    assert store.events(JOB, 1)[0].id > 20, "ids are given once: who waits for news would miss it"


def test_one_that_stands_by_sweeps_nothing_and_says_nothing(tmp_path: Path, clock: Clock) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    leading, other = Store(url), Store(url)
    for number, code in enumerate("abc", start=1):
        deployed(leading, number, code)
    schedule = SweepSchedule(other, Retain(versions=2), clock)
    clock.at += 61
    schedule.look()  # it leads as long as nobody does
    other.stand_by()
    clock.at += HOUR
    schedule.look()
    assert there(leading) == {"a", "b", "c"}

    assert other.claim(other.leader(), "http://b:2")
    clock.at += HOUR
    schedule.look()
    assert there(leading) == {"a", "b", "c"}, "what was unused hours ago may be about to be used"
    clock.at += HOUR
    schedule.look()
    assert there(leading) == {"b", "c"}


def test_code_goes_that_no_kept_version_has_but_not_what_is_just_handed_over(store: Store, clock: Clock) -> None:
    schedule = SweepSchedule(store, Retain(versions=2), clock)
    for number, code in enumerate("abc", start=1):
        deployed(store, number, code)
    clock.at += 61
    schedule.look()
    assert there(store) == {"a", "b", "c"}, "unused for the first time"
    store.put_artifact("coming", b"code")
    clock.at += HOUR - 1
    schedule.look()
    assert there(store) == {"a", "b", "c", "coming"}
    clock.at += 1
    schedule.look()
    assert there(store) == {"b", "c", "coming"}, "its deployment isn't stored yet"
    deployed(store, 4, "coming")
    clock.at += HOUR
    schedule.look()
    assert there(store) == {"b", "c", "coming"}
    clock.at += HOUR
    schedule.look()
    assert there(store) == {"c", "coming"}


def test_unused_code_that_is_stored_again_waits_for_its_deployment(url: str, clock: Clock) -> None:
    """Another process, such as ``anabranch run``, may store it."""
    store, other = Store(url), Store(url)
    schedule = SweepSchedule(store, Retain(versions=2), clock)
    for number, code in enumerate("abc", start=1):
        deployed(store, number, code)
    clock.at += 61
    schedule.look()
    for again, left in ((True, {"a", "b", "c"}), (True, {"a", "b", "c"}), (False, {"b", "c"})):
        if again:
            other.put_artifact("a", b"code")
        clock.at += HOUR
        schedule.look()
        assert there(store) == left
    for each in (store, other):
        each.close()


def test_code_stays_as_long_as_only_it_can_close_lanes(store: Store, clock: Clock) -> None:
    schedule = SweepSchedule(store, Retain(versions=2), clock)
    for number, code in enumerate("abcd", start=1):
        deployed(store, number, code, LaneState.CLOSING if code == "a" else LaneState.CLOSED)
    for _ in range(3):
        clock.at += HOUR + 61
        schedule.look()
    assert there(store) == {"a", "c", "d"}


def test_code_to_which_the_job_can_return_stays_however_many_versions_were_undone(url: str, clock: Clock) -> None:
    store = Store(url)
    schedule = SweepSchedule(store, Retain(versions=2), clock)
    deployed(store, 1, "a")
    deployed(store, 2, "b")
    for number in range(3, 9, 2):
        deployed(store, number, f"bad {number}")
        deployed(store, number + 1, "b", again=2)
    for _ in range(2):
        clock.at += HOUR + 61
        schedule.look()
    assert there(store) == {"a", "b"}
    assert [store.artifact(f"bad {number}") is not None for number in (3, 5, 7)] == [False, False, True]
    store.close()


def test_versions_with_the_same_code_count_as_one(store: Store, clock: Clock) -> None:
    schedule = SweepSchedule(store, Retain(versions=3), clock)
    for number, code in enumerate("abcddd", start=1):
        deployed(store, number, code)
    for _ in range(2):
        clock.at += HOUR + 61
        schedule.look()
    assert there(store) == {"b", "c", "d"}


@pytest.mark.parametrize("program", ["{", '{"version": 9}'])
def test_a_program_that_cannot_be_read_only_keeps_code_from_being_deleted(
    tmp_path: Path, clock: Clock, program: str
) -> None:
    store = Store(f"sqlite:///{tmp_path}/c.db")
    schedule = SweepSchedule(store, Retain(events=1, versions=2), clock)
    for number, code in enumerate("abc", start=1):
        deployed(store, number, code)
    with sqlite3.connect(tmp_path / "c.db") as database:
        ((stored,),) = database.execute("select program from deployments where id = 3")
        database.execute("update deployments set program = ? where id = 3", [program])
    with capture_logs() as lines:
        for _ in range(3):
            clock.at += HOUR + 61
            schedule.look()
    assert [event.at for event in store.events(JOB, 100)] == [3.0]
    assert there(store) == {"a", "b", "c"}
    (line,) = (line for line in lines if line["log_level"] == "error")
    assert line["job"] == JOB
    assert "Program" in line["error"]

    with sqlite3.connect(tmp_path / "c.db") as database:
        database.execute("update deployments set program = ? where id = 3", [stored])
    for _ in range(2):
        clock.at += HOUR
        schedule.look()
    assert there(store) == {"b", "c"}
    store.close()


def test_a_sweep_that_fails_is_tried_again_an_hour_later(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> SweepResult:
        raise StoreUnavailableError("no answer")

    coordinator = Coordinator(store, clock=clock, lease=10, grace=2, retain=Retain(events=1))
    coordinator.start(workers.start())
    clock.at += 61
    with monkeypatch.context() as patched, capture_logs() as lines:
        patched.setattr(store, "sweep", fails)
        for _ in range(2):
            coordinator.tick()
    assert [line["error"] for line in lines if line["log_level"] == "error"] == ["no answer"]
    clock.at += HOUR
    coordinator.look()
    assert len(store.events(JOB, 100)) == 1


def test_two_threads_that_look_at_the_same_moment_sweep_once(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweeps: list[object] = []

    def swept(*given: object) -> SweepResult:
        sweeps.append(given)
        return SweepResult()

    both = threading.Barrier(2)

    def read_by_both() -> float:
        with suppress(threading.BrokenBarrierError):  # only one thread at a time reads the clock
            both.wait(0.3)
        return clock()

    monkeypatch.setattr(store, "sweep", swept)
    both.abort()
    schedule = SweepSchedule(store, Retain(), read_by_both)
    both.reset()
    clock.at += 61
    threads = [threading.Thread(target=schedule.look) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(sweeps) == 1
