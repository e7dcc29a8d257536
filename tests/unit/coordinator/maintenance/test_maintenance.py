"""A job whose folders are replaced: it is stopped, nobody starts it meanwhile, and the switch is one step."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec
import pytest

from anabranch.cli import compact
from anabranch.config import CoordinatorSettings
from anabranch.coordinator.jobs import plans
from anabranch.coordinator.leadership import endpoint
from anabranch.coordinator.leadership.election import Election
from anabranch.coordinator.maintenance import stopped_job
from anabranch.coordinator.store import Store
from anabranch.deadlines import wait_until
from anabranch.errors import ConflictError, NotFoundError, NotLeadingError
from anabranch.model.deployment_state import DeploymentState
from anabranch.model.lane import Lane, LaneState
from tests.unit.coordinator.helpers import FIRST, SECOND, Clock, lane, plan
from tests.unit.coordinator.store.helpers import event

JOB = "delays"


def stored(url: str = "sqlite://", **fields: object) -> Store:
    """A job with a stateful lane, whose record has these fields, and one without state."""
    store = Store(url)
    lanes = (lane(FIRST), lane(SECOND, upstream=(FIRST,), stateful=True))
    store.create_deployment(plans.numbered(plan(lanes=lanes), 1), DeploymentState.STOPPED, event())
    stateful = store.lanes(JOB)[SECOND]
    store.put_lanes([msgspec.structs.replace(stateful, **{"folder_epoch": 1, **fields})], [])
    return store


def alone(url: str, say: Callable[[str], None] = lambda _: None, **settings: str) -> AbstractContextManager[Store]:
    return stopped_job.alone(CoordinatorSettings(store=url, **settings), JOB, say)  # type: ignore[arg-type]


def test_the_lanes_with_state_of_a_stopped_job() -> None:
    assert [each.id for each in stopped_job.lanes(stored(), JOB)] == [SECOND]
    assert stopped_job.lanes(stored(folder_epoch=0), JOB) == []
    assert stopped_job.lanes(stored(state=LaneState.CLOSED), JOB) == []
    with pytest.raises(NotFoundError):
        stopped_job.lanes(Store("sqlite://"), JOB)


@pytest.mark.parametrize(
    ("state", "cure"),
    [
        ("running", "anabranch stop"),
        ("changing", "anabranch stop"),
        ("stopping", "anabranch stop"),
        ("planned", "start it again"),
        ("failed", "start it again"),
    ],
)
def test_a_job_that_is_not_stopped_is_refused(state: str, cure: str) -> None:
    store = Store("sqlite://")
    store.create_deployment(plans.numbered(plan(), 1), DeploymentState(state), event())
    with pytest.raises(ConflictError, match=f"is {state}: only one that is stopped") as caught:
        stopped_job.lanes(store, JOB)
    assert cure in caught.value.cure


@pytest.mark.parametrize(
    "fields",
    [
        {"state": LaneState.CLOSING},
        {"state": LaneState.FAILED},
        {"unfenced": True},
        {"predecessors": (FIRST,), "starting": ()},
    ],
)
def test_a_job_in_the_middle_of_something_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ConflictError, match=f"lane {SECOND}"):
        stopped_job.lanes(stored(**fields), JOB)


@pytest.mark.parametrize(
    ("fields", "kept"),
    [
        ({"folder_epoch": 3, "last_batch": 9, "first_batch": 8}, {("0-b", "3")}),
        ({"folder_epoch": 3, "last_batch": 7, "first_batch": 8}, {("0-b", "3"), ("0-a", "2")}),
        ({"folder_epoch": 0, "first_batch": 8, "last_batch": -1}, {("0-a", "2")}),
        ({"folder_epoch": 3, "last_batch": 9, "first_batch": 8, "state": LaneState.CLOSED}, set()),
    ],
    ids=["goes on", "has no batch of its own", "has no folder", "closed"],
)
def test_folders_that_nobody_reads_again(fields: dict[str, object], kept: set[tuple[str, str]]) -> None:
    closed = lane("0-a", state=LaneState.CLOSED, folder_epoch=2)
    follows = lane("0-b", predecessors=("0-a",), inherits={"0-a": 2}, **fields)
    others = {("0-b", "standby-3-1"), ("0-unknown", "1"), ("0-b", "notes")}
    folders = {("0-a", "1"), ("0-a", "2"), ("0-b", "1"), ("0-b", "3")}
    found = stopped_job.unneeded({"0-a": closed, "0-b": follows}, folders | others)
    assert set(found) == folders - kept


def test_they_are_removed_and_nothing_else_is(tmp_path: Path) -> None:
    store = stored(folder_epoch=2, last_batch=3)
    for name in (f"{SECOND}/1", f"{SECOND}/2", f"{SECOND}/standby-2-1", "0-unknown/1"):
        (tmp_path / "lanes" / JOB / name / "offsets").mkdir(parents=True)
    assert compact.cleared(store, JOB, str(tmp_path / "lanes")) == [f"{SECOND}/1"]
    left = {str(path.relative_to(tmp_path / "lanes" / JOB)) for path in (tmp_path / "lanes" / JOB).glob("*/*")}
    assert left == {f"{SECOND}/2", f"{SECOND}/standby-2-1", "0-unknown/1"}
    assert compact.cleared(store, JOB, (tmp_path / "lanes").as_uri()) == []
    assert compact.cleared(store, JOB, "hdfs://host/lanes") == []


def test_folders_are_replaced_in_one_step() -> None:
    store = stored(abandoned=True)
    before = store.lanes(JOB)
    (begun,) = stopped_job.begun(store, stopped_job.lanes(store, JOB), 5.0)
    assert (begun.epoch, begun.folder_epoch) == (1, 1)
    (again,) = stopped_job.begun(store, stopped_job.lanes(store, JOB), 6.0)
    assert (again.epoch, again.folder_epoch) == (2, 1)
    stopped_job.replaced(store, [(again, "1 of 2 rows stay")], 7.0)
    after = store.lanes(JOB)
    assert after[FIRST] == before[FIRST]
    assert after[SECOND] == _as(before[SECOND], epoch=2, folder_epoch=2, abandoned=False)
    assert [(each.at, each.who, each.why) for each in store.events(JOB, 1)] == [(7.0, "compact", "1 of 2 rows stay")]


def _as(before: Lane, **fields: object) -> Lane:
    return msgspec.structs.replace(before, **fields)


def test_nobody_may_serve_the_job_meanwhile(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    with pytest.raises(NotFoundError), alone(url):
        pass
    stored(url).close()
    with alone(url) as store:
        assert stopped_job.lanes(store, JOB)
        with pytest.raises(ConflictError):
            endpoint.RunLock(url, JOB).acquire()
    with endpoint.RunLock(url, JOB), pytest.raises(ConflictError, match="already running"), alone(url):
        pass


def test_on_a_server_no_coordinator_may_lead(postgresql_url: str) -> None:
    store = stored(postgresql_url)
    with pytest.raises(NotFoundError, match="no coordinator has ever led"), alone(postgresql_url):
        pass
    store.stand_by()
    assert store.claim(None, "http://here:1")
    begin = time.monotonic()
    with pytest.raises(ConflictError, match="a coordinator leads"), alone(postgresql_url, lambda _: store.renew()):
        pass
    assert time.monotonic() - begin < 10, "it was renewed, so the lease isn't waited for"
    store.resign()
    with alone(postgresql_url) as its:
        (begun,) = stopped_job.begun(its, stopped_job.lanes(its, JOB), 5.0)
        assert store.claim(its.leader(), "http://here:1")
        with pytest.raises(NotLeadingError):
            stopped_job.replaced(its, [(begun, "")], 6.0)
    assert store.lanes(JOB)[SECOND].folder_epoch == 1
    store.close()


def test_on_a_server_no_coordinator_leads_however_long_it_takes(
    postgresql_url: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stopped_job, "RENEW_EVERY", 0.02)
    store, others = stored(postgresql_url), Store(postgresql_url)
    store.stand_by()
    assert store.claim(None, "http://here:1")
    store.resign()
    election = Election(others, "http://there:1", clock, lease=10.0, grace=2.0)
    with alone(postgresql_url) as its:
        for _ in range(5):
            assert not election.step()
            seen = its.leader()
            wait_until(
                lambda seen=seen: its.leader() != seen or None, 30.0, lambda: AssertionError("not renewed"), 0.01
            )
            clock.at += 60.0
    assert election.step()
    store.close()
    others.close()


def test_on_a_server_work_that_was_killed_can_be_repeated(postgresql_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stopped_job, "RENEW_EVERY", 0.02)
    store, said = stored(postgresql_url), list[str]()
    store.stand_by()
    assert store.claim(None, "http://here:1")
    begin = time.monotonic()
    short = {"lease": "1 second", "grace": "500 milliseconds", "period": "500 milliseconds"}
    with alone(postgresql_url, said.append, **short) as its:
        assert time.monotonic() - begin >= 1.5
        assert its.leads()
        assert not store.leads()
    assert said == [
        f"the last coordinator on {store.url} hasn't resigned: waiting up to 1.5 s to see whether it lives ..."
    ]
    with alone(postgresql_url, said.append):
        pass
    assert len(said) == 1, "it has resigned"
    store.close()


def test_on_a_server_a_leader_that_resigns_meanwhile_is_not_waited_for(postgresql_url: str) -> None:
    store = stored(postgresql_url)
    store.stand_by()
    assert store.claim(None, "http://here:1")
    begin = time.monotonic()
    with alone(postgresql_url, lambda _: store.resign(), lease="10 minutes"):
        assert time.monotonic() - begin < 60
    store.close()


SOURCE = """
import sys, time
from anabranch.config import CoordinatorSettings
from anabranch.coordinator.maintenance import stopped_job
with stopped_job.alone(CoordinatorSettings(store=sys.argv[1]), "delays", print):
    print("alone", flush=True)
    time.sleep(600)
"""


def test_on_a_server_work_that_is_told_to_end_ends_as_by_ctrl_c(postgresql_url: str) -> None:
    store = stored(postgresql_url)
    store.stand_by()
    assert store.claim(None, "http://here:1")
    store.resign()
    command = [sys.executable, "-c", SOURCE, postgresql_url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "alone\n"
        os.kill(process.pid, signal.SIGTERM)
        _, printed = process.communicate(timeout=60)
    assert (process.returncode, printed.splitlines()[-1]) == (-signal.SIGINT, "KeyboardInterrupt")
    leader = store.leader()
    assert leader is not None
    assert leader.resigned
    store.close()
