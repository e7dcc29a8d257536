"""Leadership by the store's row: one claim wins, and who was deposed writes nothing, by any method."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable

import httpx
import msgspec
import pytest
import sqlalchemy as sa

from anabranch.coordinator.api import listening
from anabranch.coordinator.api.client import Client
from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.jobs import plans
from anabranch.coordinator.store import ContainerRecord, LeaderRecord, Store, tables
from anabranch.errors import NotLeadingError, StoreUnavailableError
from anabranch.model.deployment_state import DeploymentState
from anabranch.model.lane import LaneState
from anabranch.protocol import errors as sent_errors
from anabranch.protocol.container import Registration
from tests.unit.coordinator.helpers import FIRST, lane, plan
from tests.unit.coordinator.store.helpers import event, filled, raw

A, B = "http://a:1", "http://b:2"
WHO = Registration(job="delays", seat="0", execution="x", host="h", pid=1)
HELD = ContainerRecord(
    deployment=1,
    id="delays:0:1",
    job="delays",
    seat="0",
    epoch=1,
    execution="x",
    host="h",
    pid=1,
    instance="",
    rack=None,
    registered_at=1,
    gone=None,
)


def resume(store: Store) -> None:
    deployment = store.deployment("delays")
    assert deployment is not None
    store.resume_deployment(deployment, DeploymentState.STARTING, [], "resumed", event("resumed"))


def put(store: Store) -> None:
    begun = msgspec.structs.replace(store.lanes("delays")[FIRST], state=LaneState.RUNNING)
    store.put_lanes([begun], [event("runs")])


def replace(store: Store) -> None:
    following = plans.numbered(plan(lanes=(lane("s-0000000a"),)), 2)
    model = msgspec.structs.replace(following.model, replaces=1)
    following = msgspec.structs.replace(following, model=model)
    store.replace_deployment(following, DeploymentState.CHANGING, DeploymentState.STOPPED, [], event("deployed"))


def change(store: Store) -> None:
    model = store.model("delays", 1, 1)
    after = msgspec.structs.replace(model, generation=2)
    closing = msgspec.structs.replace(store.lanes("delays")[FIRST], state=LaneState.CLOSING)
    follows = msgspec.structs.replace(closing, id="s-00000009", state=LaneState.PLANNED, predecessors=(FIRST,))
    store.change_deployment(after, DeploymentState.CHANGING, [closing], [follows], event("changed"))


def write(store: Store) -> None:
    with store.writing(event()):
        pass


def restore(store: Store) -> None:
    happened = msgspec.structs.replace(event("restored"), job="other")
    elsewhere = Store("sqlite://")
    elsewhere.create_deployment(plans.numbered(plan("other"), 1), DeploymentState.PLANNED, happened)
    store.import_job("other", elsewhere.export_job("other"), happened)


WRITES: dict[str, Callable[[Store], object]] = {
    "writing": write,
    "create_deployment": lambda store: store.create_deployment(
        plans.numbered(plan("other"), 1), DeploymentState.PLANNED, msgspec.structs.replace(event(), job="other")
    ),
    "resume_deployment": resume,
    "replace_deployment": replace,
    "reset": lambda store: store.reset("delays", 1, list(store.lanes("delays").values()), event("reset")),
    "sweep": lambda store: store.sweep(1, 1, {}),
    "put_drain": lambda store: store.put_drain("delays", 1, None, event("drain")),
    "move_deployment": lambda store: store.move_deployment(
        "delays", 1, DeploymentState.FAILED, "broken", event("broke")
    ),
    "put_lanes": put,
    "reseat": lambda store: store.reseat(list(store.lanes("delays").values()), event("moved")),
    "change_deployment": change,
    "register": lambda store: store.register(WHO, "0", [], 1.0),
    "expel": lambda store: store.expel(HELD, list(store.lanes("delays").values()), "silent", 1.0, "coordinator"),
    "leave": lambda store: store.leave(HELD, 1.0),
    "import_job": restore,
    "put_artifact": lambda store: store.put_artifact("a" * 64, b"code"),
    "note": lambda store: store.note([event("noted")]),
    "renew": lambda store: store.renew(),
    "resign": lambda store: store.resign(),
}
"""Every method that writes, but for ``claim``."""
READS = {
    *(
        "jobs",
        "deployment",
        "graph",
        "model",
        "has_request",
        "lanes",
        "containers",
        "container",
        "former",
        "lost",
        "artifact",
    ),
    *("events", "leader", "lane_states", "last_state", "open_lanes", "deployment_numbers", "leads", "export_job"),
    "revisions",
}
OTHERS = {"open_existing", "close", "stand_by", "claim", "watched"}


def filled_with_events(url: str) -> Store:
    """A store that sweeping finds something to remove from."""
    store = filled(Store(url))
    store.note([event("noted"), event("noted again")])
    return store


def everything(url: str) -> dict[str, list[tuple[object, ...]]]:
    with raw(url) as connection:
        return {
            table.name: sorted((tuple(row) for row in connection.execute(sa.select(table))), key=repr)
            for table in tables.metadata.sorted_tables
        }


def leading(store: Store, holder: str) -> Store:
    assert store.claim(store.leader(), holder)
    return store


def test_every_method_of_the_store_is_known_to_write_or_not() -> None:
    methods = {name for name, _ in inspect.getmembers(Store, callable) if not name.startswith("_")}
    assert methods == set(WRITES) | READS | OTHERS


@pytest.mark.parametrize("name", sorted(WRITES))
@pytest.mark.suite(cases=6)
def test_who_was_deposed_writes_nothing(url: str, name: str) -> None:
    deposed = leading(filled_with_events(url), A)
    leading(Store(url), B)
    before = everything(url)
    with pytest.raises(NotLeadingError, match=B):
        WRITES[name](deposed)
    assert everything(url) == before


@pytest.mark.parametrize("name", sorted(set(WRITES) - {"renew", "resign"}))
@pytest.mark.suite(cases=6)
def test_who_never_claimed_writes_and_who_stands_by_doesn_t(url: str, name: str) -> None:
    store, before = filled_with_events(url), everything(url)
    WRITES[name](Store(url))
    assert everything(url) != before
    store.stand_by()
    after = everything(url)
    with pytest.raises(NotLeadingError, match="no coordinator leads"):
        WRITES[name](store)
    assert everything(url) == after


@pytest.mark.parametrize("name", sorted(WRITES))
@pytest.mark.suite(cases=6)
def test_who_leads_writes(url: str, name: str) -> None:
    store = leading(filled_with_events(url), A)
    before = everything(url)
    WRITES[name](store)
    assert everything(url) != before


def test_who_lost_a_claim_or_resigned_writes_nothing(url: str) -> None:
    store, loser = leading(filled(Store(url)), A), Store(url)
    assert not loser.claim(None, B)
    store.resign()
    for one in (store, loser):
        with pytest.raises(NotLeadingError):
            put(one)
    assert loser.claim(loser.leader(), B)
    put(loser)


def test_a_beat_and_a_resignation_are_seen_and_an_old_look_wins_nothing(url: str) -> None:
    store, other = leading(Store(url), A), Store(url)
    first = other.leader()
    assert first == LeaderRecord(epoch=1, holder=A, beat=0)
    store.renew()
    assert other.leader() == LeaderRecord(epoch=1, holder=A, beat=1)
    assert not other.claim(first, B)
    store.resign()
    resigned = other.leader()
    assert resigned is not None
    assert resigned.resigned
    assert other.claim(resigned, B)
    assert other.leader() == LeaderRecord(epoch=2, holder=B, beat=0)


def test_of_claims_at_once_one_wins_each_time(url: str) -> None:
    stores = [Store(url) for _ in range(4)]
    for epoch in range(1, 6):
        seen = stores[0].leader()
        barrier = threading.Barrier(len(stores))
        won: list[str] = []

        def claim(store: Store, holder: str) -> None:
            barrier.wait()  # noqa: B023
            if store.claim(seen, holder):  # noqa: B023
                won.append(holder)  # noqa: B023

        threads = [threading.Thread(target=claim, args=(store, str(n))) for n, store in enumerate(stores)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [stores[0].leader()] == [LeaderRecord(epoch=epoch, holder=who, beat=0) for who in won]


@pytest.mark.parametrize("error", [NotLeadingError("a", "b"), StoreUnavailableError("a", "b")])
def test_both_travel_as_503(error: NotLeadingError | StoreUnavailableError) -> None:
    assert sent_errors.status_of(error) == 503
    back = sent_errors.error_of(503, sent_errors.payload_of(error))
    assert type(back) is type(error)
    assert (back.what, back.cure) == ("a", "b")
    assert type(sent_errors.error_of(503, {"error": "a"})) is NotLeadingError


def test_a_coordinator_that_was_deposed_answers_and_refuses_to_change(url: str) -> None:
    coordinator = Coordinator(leading(Store(url), A))
    coordinator.start(plan())
    server = listening.serve(coordinator)
    try:
        with Client(server.url) as client:
            leading(Store(url), B)
            before = everything(url)
            for change in (lambda: client.stop("delays"), lambda: client.register(WHO)):
                with pytest.raises(NotLeadingError, match=f"doesn't lead; {B} has claimed") as caught:
                    change()
                assert caught.value.cure
            assert httpx.post(f"{server.url}/jobs/delays/stop", trust_env=False).status_code == 503
            assert [job.job for job in client.jobs()] == ["delays"]
            assert everything(url) == before
    finally:
        server.close()
