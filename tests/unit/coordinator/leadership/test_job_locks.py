"""The locks of jobs that a coordinator serves: with a note each, or not held at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.leadership import endpoint
from anabranch.coordinator.leadership.election import Election
from anabranch.coordinator.leadership.job_locks import JobLocks
from anabranch.coordinator.leadership.leadership import Leadership
from anabranch.coordinator.store import Store
from anabranch.errors import ConfigError, ConflictError
from tests.unit.coordinator.helpers import Clock, lane, plan
from tests.unit.coordinator.programs import PROGRAM

ME = "http://a:1"


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/coordinator.db"


def unwritable_note(url: str, job: str) -> Path:
    """A folder in the place of a job's note."""
    note = endpoint.run_folder(url) / f"{job}.json"
    note.mkdir(parents=True)
    return note


def test_a_lock_without_a_note_is_not_held(url: str) -> None:
    locks = JobLocks(url, ME)
    note = unwritable_note(url, "delays")
    with pytest.raises(ConfigError, match="can't be written"):
        locks.take("delays")
    with endpoint.RunLock(url, "delays"):
        pass
    note.rmdir()
    assert [path.name for path in note.parent.iterdir()] == ["delays.lock"]
    assert locks.take("delays")
    assert note.is_file()


def test_a_lock_is_released_even_if_its_note_cannot_be_removed(url: str) -> None:
    locks = JobLocks(url, ME)
    assert locks.take("delays")
    with pytest.raises(ConflictError):
        endpoint.RunLock(url, "delays").acquire()
    (endpoint.run_folder(url) / "delays.json").unlink()
    unwritable_note(url, "delays")
    with pytest.raises(OSError, match=r"delays\.json"):
        locks.give("delays")
    with endpoint.RunLock(url, "delays"):
        pass


def test_locks_are_released_even_if_the_note_of_one_cannot_be_removed(url: str) -> None:
    locks = JobLocks(url, ME)
    for job in ("delays", "other"):
        assert locks.take(job)
    (endpoint.run_folder(url) / "delays.json").unlink()
    unwritable_note(url, "delays")
    with pytest.raises(OSError, match=r"delays\.json"):
        locks.give_those(lambda job: True)
    for job in ("delays", "other"):
        with endpoint.RunLock(url, job):
            pass


def test_a_job_whose_note_cannot_be_written_holds_up_no_other_job(url: str, clock: Clock) -> None:
    store = Store(url)
    for job, name in (("delays", "s-0000000a"), ("other", "s-0000000b")):
        Coordinator(store, clock).start(plan(job, (lane(name, job=job),), program=PROGRAM))
    coordinator = Coordinator(store, clock, grace=2)
    election = Election(store, ME, clock, 10.0, 2.0)
    leadership = Leadership(coordinator, store, url, election, ME, lambda lane, settings: None)
    note = unwritable_note(url, "delays")
    leadership.turn()
    assert leadership.leads
    assert [coordinator.status(job).served for job in ("delays", "other")] == [False, True]
    note.rmdir()
    clock.at += 5.0
    leadership.turn()
    assert coordinator.status("delays").served
    assert note.is_file()
    leadership.step_down()
    store.close()
