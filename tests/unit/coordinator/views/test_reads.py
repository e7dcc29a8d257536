"""What pages read of a coordinator: by part, bounded, with ETags, and the truth of who lives where nobody serves."""

from __future__ import annotations

import gzip
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from anabranch.coordinator.api import server
from anabranch.coordinator.api.operations import Operations
from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.store import DeploymentRecord, Store
from anabranch.errors import NotFoundError, UsageError
from anabranch.protocol.commands import ScaleRequest
from anabranch.protocol.container import Heartbeat
from anabranch.protocol.drain import DrainNotification
from tests.unit.coordinator.figures import with_figures
from tests.unit.coordinator.helpers import Clock
from tests.unit.coordinator.workers import JOB, running, start


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator(Store("sqlite://"), clock=Clock(), lease=10, grace=2, now=lambda: 5000.0)


@pytest.fixture
def asked(coordinator: Coordinator) -> TestClient:
    return TestClient(server.app(coordinator))


def test_live_has_a_row_for_each_open_lane_and_each_container(coordinator: Coordinator) -> None:
    worker = with_figures(coordinator)
    found = coordinator.live(JOB)
    assert (found.served, found.state, found.at) == (True, "running", 5000.0)
    lanes = {each["id"]: each for each in found.lanes.records()}
    status = {each.lane.id: each for each in coordinator.status(JOB).lanes}
    assert {name: each["lag"] for name, each in lanes.items()} == {name: each.lag for name, each in status.items()}
    assert sum(each["lag"] for each in lanes.values()) > 0
    assert {each["phase"] for each in lanes.values()} == {"running"}
    (container,) = found.containers.records()
    assert (container["id"], container["lease"], container["heard"]) == (worker.seat.me.container, 10.0, 5000.0)
    assert container["lanes"] == len(lanes)


def test_nobody_is_said_to_be_dead_where_the_job_is_not_served(coordinator: Coordinator) -> None:
    with_figures(coordinator)
    stands_by = Coordinator(coordinator.registry.store, clock=Clock(), lease=10, grace=2)
    found = stands_by.live(JOB)
    assert not found.served
    (container,) = found.containers.records()
    assert (container["lease"], container["heard"], container["gone"]) == (None, None, None)
    lanes = found.lanes.records()
    assert {each["phase"] for each in lanes} == {None}
    assert [each["id"] for each in lanes] == [each["id"] for each in coordinator.live(JOB).lanes.records()]
    (job,) = stands_by.overview().jobs
    assert (job.served, job.containers, job.lag, job.lanes) == (False, None, None, len(lanes))
    assert job.worst == stands_by.findings(JOB)[0]
    assert job.worst.rule == "no-leader"


def test_a_stopped_job_that_nobody_serves_needs_no_attention(coordinator: Coordinator) -> None:
    worker = running(coordinator)
    coordinator.stop(JOB)
    worker.turns()
    stands_by = Coordinator(coordinator.registry.store, clock=Clock(), lease=10, grace=2)
    (job,) = stands_by.overview().jobs
    assert (job.state, job.served, job.worst) == ("stopped", False, None)


def test_a_change_under_way_is_told_with_its_lanes(coordinator: Coordinator) -> None:
    worker = running(coordinator)
    worker.closes = False
    told = coordinator.scale(JOB, ScaleRequest(factor=4))
    worker.turn()
    found = coordinator.live(JOB).change
    assert found is not None
    assert (found.generation, found.predicted, found.closed, found.running) == (2, told.pause, 0, 0)
    assert set(found.closing) == {lane.id for lane in told.closing}
    assert set(found.starting) == {lane.id for lane in told.lanes}
    worker.closes = True
    worker.turns(6)
    assert coordinator.live(JOB).change is None


def test_a_change_under_way_is_told_with_its_lanes_after_a_takeover(coordinator: Coordinator) -> None:
    worker = running(coordinator)
    worker.closes = False
    told = coordinator.scale(JOB, ScaleRequest(factor=4))
    worker.turn()
    other = Coordinator(coordinator.registry.store, clock=Clock(), lease=10, grace=2, now=lambda: 5020.0)
    assert other.adopt(JOB)
    found = other.live(JOB).change
    assert found is not None
    assert (found.generation, found.began, found.predicted) == (2, 5000.0, None)
    assert (found.closed, found.running) == (0, 0)
    assert set(found.closing) == {lane.id for lane in told.closing}
    assert set(found.starting) == {lane.id for lane in told.lanes}
    assert "change-slow" not in [each.rule for each in other.findings(JOB)]


def test_a_change_is_shown_since_the_moment_that_the_store_has() -> None:
    clock = Clock()
    coordinator = Coordinator(Store("sqlite://"), clock=clock, lease=10, grace=2, now=clock)
    running(coordinator)
    clock.at += 5
    coordinator.scale(JOB, ScaleRequest(factor=4))
    stored = coordinator.registry.store.deployment(JOB)
    assert stored is not None
    assert (stored.state, stored.changed_at) == ("changing", clock.at)
    (overview,) = coordinator.overview().jobs
    assert coordinator.live(JOB).since == overview.changed_at == clock.at


def test_the_overview_has_a_line_for_each_job(coordinator: Coordinator) -> None:
    with_figures(coordinator)
    (job,) = coordinator.overview().jobs
    assert (job.job, job.state, job.served, job.containers, job.failed_lanes) == (JOB, "running", True, 1, 0)
    assert (job.lag, job.rows) == (sum(each.lag for each in coordinator.status(JOB).lanes), 30.0)


def test_jobs_at_rest_are_read_once_while_nothing_happens_to_them(coordinator: Coordinator) -> None:
    worker = running(coordinator)
    coordinator.stop(JOB)
    worker.turns()
    store = coordinator.registry.store
    stands_by = Coordinator(store, clock=Clock(), lease=10, grace=2)
    before = stands_by.overview().jobs
    read: list[str] = []
    find = store.deployment

    def reading(job: str, number: int | None = None) -> DeploymentRecord | None:
        read.append(job)
        return find(job, number)

    store.deployment = reading  # type: ignore[method-assign]
    assert stands_by.overview().jobs == before
    assert read == []
    coordinator.start(start())
    assert [each.state for each in stands_by.overview().jobs] == ["starting"]
    read.clear()
    for _ in range(2):
        stands_by.overview()
    assert read == [JOB, JOB], "the lanes of a job that may run can change at any time"


def test_no_revision_is_looked_up_where_all_jobs_are_served(
    coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    running(coordinator)
    store = coordinator.registry.store
    looked: list[int] = []
    find = store.revisions
    monkeypatch.setattr(store, "revisions", lambda: looked.append(1) or find())
    assert [each.served for each in coordinator.overview().jobs] == [True]
    assert looked == []
    stands_by = Coordinator(store, clock=Clock(), lease=10, grace=2)
    assert [each.served for each in stands_by.overview().jobs] == [False]
    assert looked == [1]


def test_partitions_are_sorted_and_cut_and_summed_over_all(coordinator: Coordinator) -> None:
    with_figures(coordinator, partitions=4)
    every = coordinator.partitions(JOB)
    rows = every.table.records()
    lags = [each["lag"] for each in rows if each["lag"] is not None]
    assert lags == sorted(lags, reverse=True)
    assert every.totals["lag"] == sum(lags) == sum(each.lag for each in coordinator.status(JOB).lanes)
    assert every.quantiles["max"] == lags[0]
    part = coordinator.partitions(JOB, sort="ssp", start=1, limit=2)
    assert [each["ssp"] for each in part.table.records()] == sorted(each["ssp"] for each in rows)[1:3]
    assert (part.total, part.totals) == (every.total, every.totals)
    assert sum(each["held"] is True for each in rows) == 1
    with pytest.raises(UsageError, match="no column"):
        coordinator.partitions(JOB, sort="color")
    with pytest.raises(UsageError, match="2001 rows"):
        coordinator.partitions(JOB, limit=2001)


def test_the_earliest_partitions_in_event_time_come_first_and_are_counted(coordinator: Coordinator) -> None:
    worker = running(coordinator, partitions=6)
    name, report = max(worker.reports.items(), key=lambda each: len(each[1].progress.positions))
    ssps = list(report.progress.positions)
    times = {ssps[0]: 900_000, ssps[1]: 60_000, ssps[2]: 10_000, ssps[3]: 0, ssps[4]: 70_000}
    worker.reports[name] = report.changed(times=times, idle=(ssps[3],))
    worker.turn()
    found = coordinator.partitions(JOB, lane=name, sort="time")
    rows = [each for each in found.table.records() if each["time"] is not None]
    assert [each["ssp"] for each in rows] == sorted(times, key=times.__getitem__)
    assert found.table.records()[len(rows) :] == [each for each in found.table.records() if each["time"] is None]
    assert (found.totals["timed"], found.totals["holding"]) == (4, 3)


def test_processes_are_asked_for_times_while_somebody_looks_at_partitions() -> None:
    clock = Clock()
    coordinator = Coordinator(Store("sqlite://"), clock=clock, lease=10, grace=2, now=clock)
    worker = running(coordinator)

    def watched() -> set[bool]:
        beat = Heartbeat(
            container=worker.seat.me.container,
            epoch=worker.seat.me.epoch,
            number=worker.seat.number + 1,
            seen=worker.seat.seen,
            lanes=tuple(worker.reports.values()),
        )
        worker.seat.number += 1
        at_once = coordinator.membership.hear_at_once(beat)
        assert at_once is not None
        return {at_once.watched, coordinator.membership.answer(beat).watched, coordinator.heartbeat(beat).watched}

    assert watched() == {False}
    coordinator.live(JOB)
    assert watched() == {False}
    coordinator.partitions(JOB)
    assert watched() == {True}
    clock.at += 5
    assert watched() == {True}
    for _ in range(4):
        clock.at += 6
        worker.turn()
    clock.at += 2
    assert watched() == {False}


def test_while_a_job_drains_each_stage_is_told(coordinator: Coordinator) -> None:
    worker = running(coordinator)
    name, found = next(iter(worker.reports.items()))
    assert (coordinator.live(JOB).stages.rows, coordinator.live(JOB).windows) == ((), 0)
    said = DrainNotification(uuid=str(uuid.uuid4()), run_id=1)
    coordinator.call(Operations.drain, JOB, said)
    ends = {ssp: at + 5 for ssp, at in found.progress.positions.items()}
    worker.reports[name] = found.changed(ends=ends, halted=said.uuid, windows=3, stuck="map works", waits="for a batch")
    worker.turn()
    live = coordinator.live(JOB)
    stage, lanes, halted, drained, records, windows = live.stages.rows[0]
    assert (stage, halted, drained, records, windows) == (name.partition("-")[0], 1, 0, 5 * len(ends), 3)
    assert lanes == sum(each["stage"] == stage for each in live.lanes.records())
    assert live.held_up.records() == [{"lane": name, "stuck": "map works", "overdue": False, "waits": "for a batch"}]
    assert live.windows == 3


def test_of_all_lanes_one_is_asked_for_with_those_that_continue_from_it(coordinator: Coordinator) -> None:
    worker = running(coordinator)
    before = coordinator.known_lanes(JOB)
    coordinator.scale(JOB, ScaleRequest(factor=4))
    worker.turns(6)
    name = next(each.id for each in before.values() if each.stage == "0")
    followers = [each.id for each in coordinator.known_lanes(JOB).values() if name in each.predecessors]
    assert followers
    assert list(coordinator.known_lanes(JOB, name)) == [name, *followers]


def test_placement_counts_the_buckets_of_each_partition_in_each_seat(coordinator: Coordinator) -> None:
    coordinator.start(start(factor=4, containers=3, partitions=5))
    found = coordinator.placement(JOB)
    cells = found.cells.records()
    assert sum(each["buckets"] for each in cells) == 5 * 4
    assert (found.total, len(found.partitions), found.seats) == (5, 5, ("0", "1", "2"))
    per_seat = [sum(each["buckets"] for each in cells if each["seat"] == seat) for seat in range(3)]
    model = coordinator.model(JOB)
    assert per_seat == [len(each.tasks[found.stage]) for each in model.containers]
    part = coordinator.placement(JOB, start=4, limit=1)
    assert (part.partitions, part.total) == (found.partitions[4:], 5)
    with pytest.raises(NotFoundError, match="no stage"):
        coordinator.placement(JOB, stage="nowhere")


def test_the_graph_has_its_operators_by_stage_and_what_flows_between(coordinator: Coordinator) -> None:
    running(coordinator)
    found = coordinator.graph(JOB)
    model = coordinator.model(JOB)
    assert [each.stage for each in found.stages] == [each.stage for each in model.stages]
    ids = {node.id for node in found.nodes}
    assert all(set(each.nodes) <= ids for each in found.stages)
    assert found.promises == coordinator.status(JOB).promises
    assert len(found.edges) == sum(any("/" in name for name in each.inputs) for each in model.stages[1:])
    with pytest.raises(NotFoundError):
        coordinator.graph("unknown")


@pytest.mark.parametrize("number", [-1, 2, 99])
def test_a_deployment_that_is_not_there_is_named_and_the_job_is_known(coordinator: Coordinator, number: int) -> None:
    running(coordinator)
    asks: tuple[Callable[[str, int], object], ...] = (coordinator.moves, coordinator.graph)
    for ask in asks:
        with pytest.raises(NotFoundError, match=f"job '{JOB}' has no deployment {number}") as caught:
            ask(JOB, number)
        assert caught.value.cure == "its last one is 1"
        with pytest.raises(NotFoundError, match="there is no job 'unknown'"):
            ask("unknown", number)


def test_deployments_are_listed_newest_first(coordinator: Coordinator) -> None:
    running(coordinator)
    (found,) = coordinator.deployments(JOB)
    assert (found.id, found.version_of, found.state, found.file) == (1, 1, "running", "job.py")


def test_a_model_is_sent_once_a_generation(coordinator: Coordinator, asked: TestClient) -> None:
    worker = running(coordinator)
    first = asked.get(f"/jobs/{JOB}/model")
    assert first.headers["etag"]
    known = {"If-None-Match": first.headers["etag"]}
    again = asked.get(f"/jobs/{JOB}/model", headers=known)
    assert (again.status_code, again.content) == (304, b"")
    coordinator.scale(JOB, ScaleRequest(factor=4))
    worker.turns(6)
    after = asked.get(f"/jobs/{JOB}/model", headers=known)
    assert (after.status_code, after.json()["factor"]) == (200, 4)


@pytest.mark.parametrize("mark", ["", "-gzip", "--gzip"])
def test_an_etag_is_known_again_though_a_proxy_has_marked_it(
    coordinator: Coordinator, asked: TestClient, mark: str
) -> None:
    """As Apache's mod_deflate and others do, which say W/ where they compress, or add a suffix."""
    running(coordinator)
    plain = asked.get(f"/jobs/{JOB}/graph", headers={"Accept-Encoding": "identity"}).headers["etag"]
    packed = asked.get(f"/jobs/{JOB}/graph", headers={"Accept-Encoding": "gzip"}).headers["etag"]
    assert plain.startswith('W/"')  # a strong one may not be the same for both
    assert plain == packed
    marked = f'{plain.removeprefix("W/")[:-1]}{mark}"'
    assert asked.get(f"/jobs/{JOB}/graph", headers={"If-None-Match": f'"other", {marked}'}).status_code == 304
    assert asked.get(f"/jobs/{JOB}/graph", headers={"If-None-Match": '"other"'}).status_code == 200


def test_large_answers_are_compressed_for_whoever_takes_that(coordinator: Coordinator, asked: TestClient) -> None:
    running(coordinator, factor=16)
    with asked.stream("GET", f"/jobs/{JOB}", headers={"Accept-Encoding": "gzip"}) as answer:
        packed = b"".join(answer.iter_raw())
    plain = asked.get(f"/jobs/{JOB}", headers={"Accept-Encoding": "identity"})
    assert answer.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in plain.headers
    assert gzip.decompress(packed) == plain.content
    assert len(packed) < len(plain.content) / 3


def test_what_says_the_same_at_another_time_has_the_same_etag(asked: TestClient, coordinator: Coordinator) -> None:
    running(coordinator)
    first = asked.get(f"/jobs/{JOB}")
    known = {"If-None-Match": first.headers["etag"]}
    assert asked.get(f"/jobs/{JOB}", headers=known).status_code == 304
    coordinator.stop(JOB)
    assert asked.get(f"/jobs/{JOB}", headers=known).status_code == 200


def test_events_are_read_on_from_an_id_and_back_from_one(coordinator: Coordinator) -> None:
    running(coordinator)
    every = coordinator.events(JOB)
    ids = [each.id for each in every]
    assert ids == sorted(ids)
    assert all(ids)
    assert coordinator.events(JOB, after=ids[1]) == every[2:]
    assert coordinator.events(JOB, 2, after=ids[0]) == every[1:3]
    assert coordinator.events(JOB, 2, before=ids[3]) == every[1:3]
    lanes = [each for each in every if each.kind == "lane"]
    assert coordinator.events(JOB, kind="lane") == lanes
    assert coordinator.events(JOB, lane=lanes[0].lane) == [each for each in every if each.lane == lanes[0].lane]
    with pytest.raises(UsageError, match="no kind"):
        coordinator.events(JOB, kind="colour")


def test_whoever_waits_for_events_hears_them_at_once(coordinator: Coordinator, asked: TestClient) -> None:
    running(coordinator)
    last = coordinator.events(JOB)[-1].id
    later = threading.Timer(0.3, lambda: coordinator.stop(JOB))
    later.start()
    began = time.monotonic()
    found = asked.get(f"/jobs/{JOB}/events?after={last}&wait=20").json()["events"]
    assert found[0]["kind"] == "state"
    assert time.monotonic() - began < 10
    later.join()
    none = asked.get(f"/jobs/{JOB}/events?after={found[-1]['id'] + 1000}&wait=0.1").json()["events"]
    assert none == []


def test_no_event_that_the_coordinator_writes_is_of_no_kind(coordinator: Coordinator) -> None:
    worker = running(coordinator)
    coordinator.scale(JOB, ScaleRequest(factor=4))
    worker.turns(6)
    coordinator.stop(JOB)
    worker.turns()
    assert {each.what for each in coordinator.events(JOB) if each.kind == "other"} == set()


def test_a_coordinator_says_what_it_is(asked: TestClient) -> None:
    found = asked.get("/coordinator").json()
    assert (found["leads"], found["leader"], found["lease"], found["grace"]) == (True, None, 10.0, 2.0)
    assert found["store"] == "sqlite://"


def test_who_stands_by_says_so_and_who_leads(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    first, second = Store(url), Store(url)
    second.stand_by()
    assert first.claim(None, "http://a:8480")
    leads = [(found.leads, found.leader) for found in (Coordinator(first).info(), Coordinator(second).overview())]
    assert leads == [(True, "http://a:8480"), (False, "http://a:8480")]
    first.resign()
    assert (Coordinator(first).info().leads, Coordinator(first).info().leader) == (False, None)
