"""The rows of a job leave one store and come into another."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from anabranch.backup import rows
from anabranch.backup.moment import Moment
from anabranch.coordinator.jobs import plans
from anabranch.coordinator.store import Event, Store
from anabranch.coordinator.store.moving import JobRows
from anabranch.errors import ConflictError, NotFoundError
from anabranch.model.deployment_state import DeploymentState
from anabranch.model.lane import Lane, LaneState
from anabranch.protocol.container import Registration
from anabranch.protocol.deployment import Program
from tests.unit.coordinator.helpers import FIRST, SECOND, lane, plan

EVENT = Event(kind="other", job="delays", at=5.0, who="user", what="did")
PROGRAM = Program(
    artifact="a" * 64, file="delays.py", settings={"storage": {"root": "/old"}, "job": {"factor": 4}}, schemas={}
)


@pytest.fixture
def store() -> Store:
    made = Store("sqlite://")
    made.put_artifact("a" * 64, b"code")
    made.put_artifact("b" * 64, b"code of another job")
    made.create_deployment(plans.numbered(plan(program=PROGRAM), 1), DeploymentState.RUNNING, EVENT)
    registration = Registration(job="delays", seat="0", execution="x", host="h", pid=1, deployment=1)
    runs = lane(FIRST, deployment=1, state=LaneState.RUNNING, folder_epoch=1, abandoned=True)
    made.register(registration, "0", [runs, lane(SECOND, deployment=1, state=LaneState.FAILED)], 6.0)
    return made


def in_another(given: JobRows) -> Store:
    made = Store("sqlite://")
    made.import_job("delays", given, EVENT)
    return made


def test_a_job_is_in_another_store_as_it_was_in_this_one(store: Store) -> None:
    other = in_another(store.export_job("delays"))
    assert other.export_job("delays") | {"events": ()} == store.export_job("delays") | {"events": ()}
    said = [(event.what, event.who) for event in store.events("delays", 10)]
    assert [(event.what, event.who) for event in other.events("delays", 10)] == [*said, ("did", "user")]
    assert (other.artifact("a" * 64), other.artifact("b" * 64)) == (b"code", None)


def test_a_job_that_is_known_is_not_replaced(store: Store) -> None:
    with pytest.raises(ConflictError, match="has a job 'delays' already"):
        store.import_job("delays", store.export_job("delays"), EVENT)
    with pytest.raises(NotFoundError, match="no job 'nobody'"):
        store.export_job("nobody")


def test_code_that_another_job_has_too_is_no_obstacle(store: Store) -> None:
    other = Store("sqlite://")
    other.put_artifact("a" * 64, b"code")
    other.import_job("delays", store.export_job("delays"), EVENT)
    assert other.artifact("a" * 64) == b"code"


def test_a_restored_job_rests_and_its_epochs_are_above_all_that_were_before(store: Store) -> None:
    places = {"storage": {"root": "/new"}, "systems": {"embedded": {"root": "/streams"}}}
    other = in_another(rows.at_rest(store.export_job("delays"), places, "it was restored"))
    deployment = other.deployment("delays")
    assert deployment is not None
    assert deployment.state is DeploymentState.STOPPED
    assert deployment.program is not None
    assert deployment.program.settings == {"job": {"factor": 4}, **places}
    lanes = other.lanes("delays")
    assert (lanes[FIRST].state, lanes[FIRST].abandoned, lanes[FIRST].folder_epoch) == (LaneState.PLANNED, False, 1)
    assert lanes[SECOND].state is LaneState.FAILED
    assert other.containers("delays") == []
    again = Registration(job="delays", seat="0", execution="y", host="h", pid=2, deployment=1)
    process, _ = other.register(again, "0", [], 7.0)
    assert process.epoch == 2 + rows.EPOCHS_AHEAD


def moment(store: Store, *lanes: Lane, state: DeploymentState = DeploymentState.RUNNING) -> Moment:
    store.put_lanes(lanes, [])
    store.move_deployment("delays", 1, state, None, EVENT)
    return Moment("delays", store.export_job("delays"))


@pytest.mark.parametrize(
    ("state", "changed", "why"),
    [
        (DeploymentState.RUNNING, {}, ""),
        (DeploymentState.STOPPED, {}, ""),
        (DeploymentState.STOPPED, {"state": LaneState.CLOSING}, ""),
        (DeploymentState.CHANGING, {}, "it is changing"),
        (DeploymentState.DRAINING, {}, "it is draining"),
        (DeploymentState.STOPPING, {}, "it is stopping"),
        (DeploymentState.RUNNING, {"unfenced": True}, f"a former process may still write for lane {FIRST}"),
        (DeploymentState.RUNNING, {"state": LaneState.CLOSING}, f"lane {FIRST} closes"),
    ],
)
def test_a_job_is_backed_up_while_nobody_changes_it(
    store: Store, state: DeploymentState, changed: dict[str, object], why: str
) -> None:
    its = msgspec.structs.replace(store.lanes("delays")[FIRST], **changed)
    assert moment(store, its, state=state).why_not() == why


def test_a_job_that_was_reset_has_nothing_to_back_up(store: Store) -> None:
    with pytest.raises(ConflictError, match="has nothing to back up"):
        moment(store, state=DeploymentState.RESET).why_not()


def test_lanes_that_only_go_on_are_no_change_and_those_that_begin_are(store: Store) -> None:
    before = moment(store)
    first = before.lanes[FIRST]
    assert before.is_followed_by(moment(store, msgspec.structs.replace(first, last_batch=7)))
    assert not before.is_followed_by(moment(store, msgspec.structs.replace(first, folder_epoch=2)))
    assert not before.is_followed_by(moment(store, msgspec.structs.replace(first, state=LaneState.CLOSED)))
    store.put_lanes([first], [])
    assert not before.is_followed_by(moment(store, state=DeploymentState.DRAINING))
    assert before.is_followed_by(moment(store))
    store.reseat([], EVENT)
    assert not before.is_followed_by(moment(store))


def test_folders_are_those_that_open_lanes_have_and_those_they_still_go_on_from(store: Store) -> None:
    closed = lane("c", deployment=1, state=LaneState.CLOSED, folder_epoch=3)
    open_one = lane(SECOND, deployment=1, inherits={FIRST: 5}, folder_epoch=0)
    found = moment(store, lane(FIRST, deployment=1, state=LaneState.CLOSED, folder_epoch=5), open_one, closed)
    assert [(each.id, epoch) for each, epoch in found.folders] == [(FIRST, 5)]
    drained = [
        lane(each, deployment=1, state=LaneState.CLOSED, folder_epoch=n) for n, each in enumerate((FIRST, SECOND), 1)
    ]
    found = moment(store, *drained, state=DeploymentState.DRAINED)
    assert [(each.id, epoch) for each, epoch in found.folders] == [(SECOND, 2), (FIRST, 1)]


def test_rows_of_an_older_store_are_migrated(tmp_path: Path) -> None:
    """They are a store of their own: what opens that migrates it, as test_old_formats shows."""
    made = Store(f"sqlite:///{tmp_path}/store.db")
    made.create_deployment(plans.numbered(plan(), 1), DeploymentState.STOPPED, EVENT)
    made.close()
    opened = Store.open_existing(f"sqlite:///{tmp_path}/store.db", to_write=True)
    assert in_another(opened.export_job("delays")).jobs() == ["delays"]
    opened.close()
