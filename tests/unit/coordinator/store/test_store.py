"""The store, on every database that it can live in: what is written is there again, whole or not at all."""

from __future__ import annotations

import json
import threading

import msgspec
import pytest
import sqlalchemy as sa

from anabranch.coordinator.jobs import plans
from anabranch.coordinator.store import Store, stored_jobs, tables
from anabranch.errors import AnabranchError, ConfigError, NotFoundError, UnsupportedFormatError
from anabranch.model.deployment_state import DeploymentState
from anabranch.model.lane import LaneState
from anabranch.protocol.container import Registration
from tests.unit.coordinator.helpers import FIRST, lane, plan
from tests.unit.coordinator.store.helpers import event, filled, raw


def test_what_is_written_is_there_in_another_process_s_store(url: str) -> None:
    filled(Store(url)).close()
    store = Store.open_existing(url)
    start = plans.numbered(plan(), 1)
    found = store.deployment("delays")
    assert found is not None
    assert (found.id, found.state, found.generation) == (1, "planned", 1)
    assert found.fingerprint == start.fingerprint
    assert found.promises == {"late": "exactly once"}
    assert store.graph("delays", 1) == start.graph
    assert store.model("delays", 1, 1) == start.model
    assert list(store.lanes("delays").values()) == list(start.lanes)  # in the order of the plan
    assert store.events("delays", 10) == [msgspec.structs.replace(event(), id=1)]
    assert store.jobs() == ["delays"]


def test_fields_that_a_lane_got_from_a_newer_version_are_kept(url: str) -> None:
    store = filled(Store(url))
    with raw(url) as connection:
        its = tables.lanes.c.id == FIRST
        record = json.loads(connection.execute(sa.select(tables.lanes.c.record).where(its)).scalar_one())
        connection.execute(sa.update(tables.lanes).where(its).values(record=json.dumps({**record, "later": 7})))
    lane = store.lanes("delays")[FIRST]
    store.put_lanes([msgspec.structs.replace(lane, state=LaneState.RUNNING)], [])
    again = store.lanes("delays")[FIRST]
    assert (again.state, again.extra) == (LaneState.RUNNING, {"later": 7})


def test_epochs_of_a_job_rise_across_seats_and_openings(url: str) -> None:
    who = Registration(job="delays", seat="0", execution="x", host="h", pid=1)
    store = filled(Store(url))
    first, lanes = store.register(who, "0", list(store.lanes("delays").values()), 1.0)
    assert [lane.epoch for lane in lanes] == [first.epoch] * 2
    store.close()
    store = Store(url)
    second, _ = store.register(who, "1", [], 2.0)
    third, _ = store.register(who, "0", [], 3.0)
    assert first.epoch < second.epoch < third.epoch
    replaced = store.container(first.id)
    assert replaced is not None
    assert third.id in (replaced.gone or "")
    assert [one.id for one in store.containers("delays")] == [third.id, second.id]


def test_whoever_watches_is_woken_by_every_event_and_by_nothing_else(url: str) -> None:
    store = filled(Store(url))
    woken: list[int] = []
    with store.watched(lambda: woken.append(len(store.events("delays", 100)))):
        before = len(store.events("delays", 100))
        store.register(Registration(job="delays", seat="0", execution="x", host="h", pid=1), "0", [], 1.0)
        assert woken == [before + 1]
        store.put_lanes([], [event()])
        assert woken == [before + 1, before + 2]
        store.put_lanes([], [])
    store.put_lanes([], [event()])
    assert len(woken) == 2


def test_a_job_has_another_revision_once_something_has_happened_to_it(url: str) -> None:
    store = filled(Store(url))
    happened = msgspec.structs.replace(event(), job="other")
    store.create_deployment(
        plans.numbered(plan("other", (lane("other-1", job="other"),)), 1), DeploymentState.PLANNED, happened
    )
    first = store.revisions()
    assert first.keys() == {"delays", "other"}
    assert store.revisions() == first
    store.note([event("noted")])
    second = store.revisions()
    store.move_deployment("delays", 1, DeploymentState.FAILED, "no", event("failed"))
    third = store.revisions()
    assert len({each["delays"] for each in (first, second, third)}) == 3
    assert first["other"] == second["other"] == third["other"]


def test_a_step_that_breaks_leaves_nothing_of_itself(url: str) -> None:
    store = filled(Store(url))
    with pytest.raises(AnabranchError, match=r"failed: .*(UNIQUE|duplicate key)"):  # of the lanes, written last
        store.create_deployment(plans.numbered(plan(), 2), DeploymentState.PLANNED, event("again"))
    assert store.events("delays", 10) == [msgspec.structs.replace(event(), id=1)]
    found = store.deployment("delays")
    assert found is not None
    assert found.id == 1


def test_threads_write_side_by_side(url: str) -> None:
    store = filled(Store(url))
    who = Registration(job="delays", seat="0", execution="x", host="h", pid=1)
    epochs: list[int] = []

    def register() -> None:
        epochs.append(store.register(who, "0", [], 1.0)[0].epoch)

    threads = [threading.Thread(target=register) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(epochs) == list(range(1, 9))


def test_what_people_say_may_hold_any_character(url: str) -> None:
    store = filled(Store(url))
    said = event("x\0y – ‘é’ \N{OWL}")
    store.move_deployment("delays", 1, DeploymentState.FAILED, "line\0\n'; drop table jobs; --", said)
    found = store.deployment("delays")
    assert found is not None
    assert (found.error or "").endswith("\n'; drop table jobs; --")
    assert store.events("delays", 1)[0].what.endswith("y – ‘é’ \N{OWL}")


def test_looking_at_an_empty_database_finds_no_store_and_makes_none(url: str) -> None:
    for _ in range(2):
        with pytest.raises(NotFoundError, match="there is no store at"):
            Store.open_existing(url)


def test_another_program_s_database_is_refused(url: str) -> None:
    with raw(url) as connection:
        connection.exec_driver_sql("create table songs (title text)")
    for opening in (Store, Store.open_existing):
        with pytest.raises(ConfigError, match=r"is a database of something else.*songs"):
            opening(url)
    with raw(url) as connection:
        assert sa.inspect(connection).get_table_names() == ["songs"]


@pytest.mark.parametrize(
    ("version", "cure"), [("0", "from a backup"), ("6", "upgrade this one"), ("?", "from a backup")]
)
def test_a_store_of_another_version_is_refused_in_words(url: str, version: str, cure: str) -> None:
    filled(Store(url)).close()
    with raw(url) as connection:
        connection.execute(sa.update(tables.meta).values(value=version))
    for opening in (Store, Store.open_existing):
        with pytest.raises(UnsupportedFormatError, match="this anabranch knows 5") as caught:
            opening(url)
        assert cure in caught.value.cure


@pytest.mark.parametrize(
    "request_id", ["a", "50%", "a_b", 'quote "', "back\\slash", "slash/", "Straße", "😀", "new\nline"]
)
def test_a_request_is_known_by_its_whole_id(url: str, request_id: str) -> None:
    store = filled(Store(url))
    model = store.model("delays", 1, 1)
    assert not stored_jobs.is_known(store, "delays", request_id)
    requested = msgspec.structs.replace(model, generation=2, request=request_id)
    store.change_deployment(requested, DeploymentState.RUNNING, (), (), event("scaled"))
    unasked = msgspec.structs.replace(model, generation=3)
    store.change_deployment(unasked, DeploymentState.RUNNING, (), (), event("moved"))
    assert stored_jobs.is_known(store, "delays", request_id)
    others = {"", request_id[:-1], f"{request_id}x", request_id.swapcase(), "delays"} - {request_id}
    assert not any(stored_jobs.is_known(store, "delays", other) for other in others)
