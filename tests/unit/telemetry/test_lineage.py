"""What OpenLineage is told, read at the other end of the wire."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Collection, Iterator
from typing import Any

import msgspec
import pytest
from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import RunEvent

from anabranch.config import Settings
from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.lineage_source import ServedJobs
from anabranch.coordinator.store import Store
from anabranch.model.deployment_state import DeploymentState
from anabranch.model.graph import Graph, Node
from anabranch.protocol.status import JobStatus
from anabranch.telemetry import datasets, lineage
from anabranch.telemetry.datasets import Dataset, Datasets
from tests.support import collector as collectors
from tests.support.collector import Collector
from tests.unit.coordinator.helpers import FIRST, SECOND, Clock, Seat, lane, plan, report

ROOT = "/srv/streams"
EMBEDDED = {"systems": {"embedded": {"root": ROOT}}}


GRAPH = Graph(
    job="delays",
    nodes=(
        Node(id=0, kind="read", name="flights", args={"stream": "flights"}),
        Node(id=1, kind="partition_by", name="by-plane", inputs=(0,), args={"via": "stream"}),
        Node(id=2, kind="write", name="late", inputs=(1,), args={"stream": "late"}),
    ),
)


@pytest.fixture(autouse=True)
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with collectors.running() as found:
        monkeypatch.setenv("OPENLINEAGE_URL", found.url)
        monkeypatch.setattr(lineage, "EVERY", 0.05)
        yield found


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator(Store("sqlite://"), Clock(), now=lambda: 7.0)


def started(coordinator: Coordinator, **fields: Any) -> Seat:
    coordinator.start(msgspec.structs.replace(plan(settings=EMBEDDED), graph=GRAPH, **fields))
    return Seat(coordinator)


def names(of: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(each["namespace"], each["name"]) for each in of]


def test_a_run_of_a_job_begins_and_ends(coordinator: Coordinator, collector: Collector) -> None:
    with lineage.reported(ServedJobs(coordinator), print):
        seat = started(coordinator)
        collector.wait(lambda: len(collector.lineage) == 1)
        coordinator.stop("delays")
        seat.beat(report(FIRST, "ended", 5), report(SECOND, "ended", 5))
        assert not coordinator.status("delays").state.active
        collector.wait(lambda: len(collector.lineage) == 2)
        started(coordinator)
        collector.wait(lambda: len(collector.lineage) == 3)
    assert [each["eventType"] for each in collector.lineage] == ["START", "COMPLETE", "START"]
    one, other = {each["run"]["runId"] for each in collector.lineage[:2]}, collector.lineage[2]["run"]["runId"]
    assert len(one) == 1
    assert other not in one
    event = collector.lineage[0]
    assert (event["job"]["namespace"], event["job"]["name"]) == ("default", "delays")
    assert event["job"]["facets"]["jobType"]["processingType"] == "STREAMING"
    assert names(event["inputs"]) == [("file", f"{ROOT}/flights")]
    assert names(event["outputs"]) == [("file", f"{ROOT}/late")]


def test_a_failure_has_its_error(
    coordinator: Coordinator, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENLINEAGE_NAMESPACE", "staging")
    with lineage.reported(ServedJobs(coordinator), print):
        seat = started(coordinator)
        collector.wait(lambda: collector.lineage)
        seat.beat(report(FIRST, "failed", error="disk full: /data"), report(SECOND, "failed", error="disk full: /data"))
        collector.wait(lambda: len(collector.lineage) == 2)
    failure = collector.lineage[1]
    assert (failure["eventType"], failure["job"]["namespace"]) == ("FAIL", "staging")
    assert "disk full: /data" in failure["run"]["facets"]["errorMessage"]["message"]


def test_a_coordinator_that_ends_or_does_not_lead_reports_no_end(
    coordinator: Coordinator, collector: Collector
) -> None:
    leads = [True]
    with lineage.reported(ServedJobs(coordinator, lambda: leads[0]), print):
        started(coordinator)
        collector.wait(lambda: collector.lineage)
        leads[0] = False
        time.sleep(0.3)
    assert [each["eventType"] for each in collector.lineage] == ["START"]
    with lineage.reported(ServedJobs(coordinator), print):
        collector.wait(lambda: len(collector.lineage) == 2)
    assert [each["eventType"] for each in collector.lineage] == ["START", "START"]


def test_events_that_are_refused_are_told_once_and_tried_again(coordinator: Coordinator, collector: Collector) -> None:
    said: list[str] = []
    collector.refuses = True
    with lineage.reported(ServedJobs(coordinator), said.append):
        started(coordinator)
        time.sleep(1)
        (line,) = said
        assert line.startswith("warning: lineage can't be reported now: HTTPError: 403")
        collector.refuses = False
        collector.wait(lambda: collector.lineage)
    assert [each["eventType"] for each in collector.lineage] == ["START"]


def test_an_event_that_is_refused_holds_up_no_other_job_and_is_left_out(
    coordinator: Coordinator, collector: Collector
) -> None:
    """With more jobs than are tried in two passes."""
    said: list[str] = []
    bad = {f"a-{number}" for number in range(1, 8)}
    collector.refused_jobs |= bad
    for job in bad:
        start = plan(job, (lane(f"{job}-1", job=job),), settings=EMBEDDED)
        coordinator.start(msgspec.structs.replace(start, graph=msgspec.structs.replace(GRAPH, job=job)))
    with lineage.reported(ServedJobs(coordinator), said.append):
        time.sleep(0.5)
        assert not any("lacks its event" in each for each in said), "nothing has been taken, so the service is at fault"
        seat = started(coordinator)
        collector.wait(lambda: collector.lineage)
        collector.wait(lambda: len(said) == 1 + len(bad))
        collector.refused_jobs.clear()
        coordinator.stop("delays")
        seat.beat(report(FIRST, "ended", 5), report(SECOND, "ended", 5))
        coordinator.stop("a-1", True)
        collector.wait(lambda: len(collector.lineage) == 3)
    sent = {(each["job"]["name"], each["eventType"]) for each in collector.lineage}
    assert sent == {("delays", "START"), ("delays", "COMPLETE"), ("a-1", "COMPLETE")}
    assert said[0].startswith("warning: lineage can't be reported now: HTTPError: 422")
    assert {each.split()[4] for each in said[1:]} == bad
    assert all("lacks its event START, which the service has refused" in each for each in said[1:])


class Named:
    """Jobs that run, and a log of the looks for them."""

    def __init__(self, *names: str) -> None:
        self.names = names
        self.log: list[str] = []

    def jobs(self, _also: Collection[str]) -> list[JobStatus]:
        self.log.append("look")
        return [JobStatus(job=name, deployment=1, generation=1, state=DeploymentState.RUNNING) for name in self.names]

    def datasets(self, _status: JobStatus) -> Datasets:
        return Datasets((), ())


def test_the_oldest_events_are_dropped_while_nothing_can_be_sent(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lineage, "MOST_PENDING", 10)
    collector.refuses = True
    names = [f"job-{number}" for number in range(13)]
    found = Named(*names[:10])
    with lineage.reported(found, lambda _: None):
        collector.wait(lambda: len(found.log) > 2)
        found.names = tuple(names)
        seen = len(found.log)
        collector.wait(lambda: len(found.log) > seen + 1)
        collector.refuses = False
        collector.wait(lambda: len(collector.lineage) == 10)
    assert {each["job"]["name"] for each in collector.lineage} == set(names[3:])


def test_jobs_are_looked_for_after_each_time_limit_and_all_get_their_turn(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Named("a", "b", "c")

    def away(_client: OpenLineageClient, event: RunEvent) -> None:
        found.log.append(event.job.name)
        time.sleep(2 * lineage.EVERY)
        raise ConnectionError("no answer in time")

    monkeypatch.setattr(OpenLineageClient, "emit", away)
    with lineage.reported(found, lambda _: None):
        collector.wait(lambda: len(found.log) >= 8)
    assert found.log[:8] == ["look", "a", "look", "b", "look", "c", "look", "a"]


def test_the_events_of_a_job_keep_their_order_while_one_fails(coordinator: Coordinator, collector: Collector) -> None:
    collector.refused_jobs.add("delays")
    with lineage.reported(ServedJobs(coordinator), lambda _: None):
        seat = started(coordinator)
        time.sleep(0.2)
        coordinator.stop("delays")
        seat.beat(report(FIRST, "ended", 5), report(SECOND, "ended", 5))
        time.sleep(0.2)
        collector.refused_jobs.clear()
        collector.wait(lambda: len(collector.lineage) == 2)
    assert [each["eventType"] for each in collector.lineage] == ["START", "COMPLETE"]


def test_who_is_away_delays_the_end_by_little(coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        monkeypatch.setenv("OPENLINEAGE_URL", f"http://127.0.0.1:{closed.getsockname()[1]}")
        begun = time.monotonic()
        with lineage.reported(ServedJobs(coordinator), print):
            started(coordinator)
            time.sleep(0.5)
        assert time.monotonic() - begun < 15


def test_what_is_missing_is_told_and_nothing_fails(coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openlineage.client", None)
    said: list[str] = []
    with lineage.reported(ServedJobs(coordinator), said.append):
        started(coordinator)
    (line,) = said
    assert line.startswith("warning: lineage isn't reported: openlineage.client isn't installed\n  pip install ")


def test_a_stream_that_appears_is_reported_and_what_is_known_is_not_looked_up_again(
    coordinator: Coordinator, collector: Collector
) -> None:
    started(coordinator)
    asked: list[str] = []

    class Growing(ServedJobs):
        inputs = {"embedded/flights": 1}

        def jobs(self, also: Collection[str]) -> list[JobStatus] | None:
            return [msgspec.structs.replace(each, inputs=dict(self.inputs)) for each in super().jobs(also) or ()]

        def datasets(self, status: JobStatus) -> Datasets:
            asked.append(status.job)
            return super().datasets(status)

    jobs = Growing(coordinator)
    with lineage.reported(jobs, print):
        collector.wait(lambda: len(collector.lineage) == 1)
        time.sleep(0.3)
        assert len(asked) == 1
        jobs.inputs["embedded/flights-2"] = 1
        collector.wait(lambda: len(collector.lineage) == 2)
    assert [each["eventType"] for each in collector.lineage] == ["START", "RUNNING"]
    assert len({each["run"]["runId"] for each in collector.lineage}) == 1
    assert names(collector.lineage[1]["inputs"]) == [("file", f"{ROOT}/flights"), ("file", f"{ROOT}/flights-2")]


def test_one_job_that_cannot_be_described_hides_no_other(coordinator: Coordinator, collector: Collector) -> None:
    coordinator.start(plan("a-job", settings={"systems": {"default": "gone"}}))
    with lineage.reported(ServedJobs(coordinator), lambda _: None):
        started(coordinator)
        collector.wait(lambda: collector.lineage)
    assert {each["job"]["name"] for each in collector.lineage} == {"delays"}


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({}, False),
        ({"OPENLINEAGE_NAMESPACE": "x"}, False),
        ({"OPENLINEAGE_URL": "http://marquez"}, True),
        ({"OPENLINEAGE_URL": "http://marquez", "OPENLINEAGE_DISABLED": "True"}, False),
        ({"OPENLINEAGE__TRANSPORT__TYPE": "console"}, True),
        ({"OPENLINEAGE_CONFIG": "openlineage.yml"}, True),
    ],
)
def test_nothing_is_reported_unless_it_is_asked_for(environment: dict[str, str], wanted: bool) -> None:
    assert lineage.is_wanted(environment) is wanted


KAFKA = {"systems": {"default": "kafka", "kafka": {"bootstrap_servers": "one:9092, two:9092"}}}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, [("kafka://one:9092", "late")]),
        ({"streams": {"late": {"topic": "eu.late"}}}, [("kafka://one:9092", "eu.late")]),
        ({"outputs": {"late": {"to": "parquet", "path": "/data/late"}}}, [("file", "/data/late")]),
        ({"outputs": {"late": {"to": "delta", "path": "s3a://lake/late"}}}, [("s3://lake", "late")]),
        ({"outputs": {"late": {"to": "parquet", "path": "hdfs://nn:8020/late"}}}, [("hdfs://nn:8020", "/late")]),
        (
            {"outputs": {"late": {"to": "postgresql", "url": "postgresql://me:secret@db/shop", "table": "late"}}},
            [("postgres://db:5432", "shop.public.late")],
        ),
        (
            {"outputs": {"late": {"to": "postgresql", "url": "postgresql://me:secret@a:6543,b:5432/shop"}}},
            [("postgres://a:6543", "shop.public.late")],
        ),
        (
            {"outputs": {"late": {"to": "postgresql", "url": "postgresql:///shop?host=a,b&port=1,2&password=secret"}}},
            [("postgres://a:1", "shop.public.late")],
        ),
        (
            {
                "outputs": {
                    "late": {"to": "iceberg", "table": "shop.late", "catalog": {"uri": "http://me:secret@c/?a=b"}}
                }
            },
            [("http://c/", "shop.late")],
        ),
        ({"outputs": {"late": {"to": "mine:Table"}}}, [("mine:Table", "late")]),
    ],
)
def test_names_are_those_that_others_use(given: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    found = datasets.of_job(GRAPH, Settings(**KAFKA, **given), ["kafka/flights-2", "kafka/delays-by-plane-1"])
    assert found.outputs == tuple(Dataset(*each) for each in expected)
    assert {each.name for each in found.inputs} >= {"flights", "flights-2"}
    assert "secret" not in str(found)


def test_references_in_addresses_are_resolved_but_no_login_is_published(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {"BROKERS": "SSL://one:9093,two:9093", "HOST": "db", "PORT": "5433", "LOGIN": "me:secret"}
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    kafka = {"default": "kafka", "kafka": {"bootstrap_servers": "${env:BROKERS}"}}
    late = {"to": "postgresql", "url": "postgresql://me:${env:UNSET}@${env:HOST}:${env:PORT}/shop?x=${env:UNSET}"}
    found = datasets.of_job(GRAPH, Settings(systems=kafka, outputs={"late": late}))
    assert found == Datasets(
        (Dataset("kafka://one:9093", "flights"),), (Dataset("postgres://db:5433", "shop.public.late"),)
    )
    late = {"to": "iceberg", "catalog": {"uri": "http://${env:LOGIN}@${env:HOST}:8181/"}}
    found = datasets.of_job(GRAPH, Settings(systems=kafka, outputs={"late": late}))
    assert found.outputs == (Dataset("http://db:8181/", "late"),)
