"""What is exported, read by a collector at the other end of the wire."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from anabranch import metrics
from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.store import Store
from anabranch.telemetry import batches, exporting, gauges
from tests.support import collector as collectors
from tests.support.collector import Collector
from tests.unit.coordinator.helpers import FIRST, FLIGHTS, Clock, Seat, plan, report

LANE = plan().lanes[0]
BATCH = report(FIRST, "running", 5, batch=3, seconds=2.0, rows=40, run="run-1").changed(
    spent={"publishing": 0.5, "reading": 0.25, "functions": 1.25, "a phase of later versions": 0.1}
)
HERE = Path(__file__).parents[3]
ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with collectors.running() as found:
        monkeypatch.setenv(ENDPOINT, found.url)
        yield found


def test_a_batch_is_a_span_with_its_phases(collector: Collector) -> None:
    before = time.time()
    said: list[str] = []
    with exporting.traces("delays", said.append):
        batches.committed(LANE, BATCH, rows=12)
        batches.committed(LANE, BATCH.changed(batch=4, seconds=0.1, spent={}), rows=3)
    after = time.time()
    assert said == []
    assert collector.resources[0]["service.name"] == "delays"
    whole = {
        collectors.values(span.attributes)["anabranch.batch"]: span
        for span in collector.spans
        if not span.parent_span_id
    }
    assert {number: span.name for number, span in whole.items()} == {3: "batch", 4: "batch"}
    assert whole[3].trace_id != whole[4].trace_id
    found = collectors.values(whole[3].attributes)
    assert found == {
        "anabranch.job": "delays",
        "anabranch.deployment": LANE.deployment,
        "anabranch.stage": LANE.stage,
        "anabranch.lane": FIRST,
        "anabranch.epoch": LANE.epoch,
        "anabranch.factor": LANE.factor,
        "anabranch.batch": 3,
        "anabranch.rows": 12,
        "spark.run.id": "run-1",
    }
    begin, end = whole[3].start_time_unix_nano, whole[3].end_time_unix_nano
    assert before * 1e9 - 2e9 <= begin <= after * 1e9 - 2e9
    assert end - begin == 2_000_000_000
    phases = [span for span in collector.spans if span.parent_span_id == whole[3].span_id]
    phases.sort(key=lambda span: span.start_time_unix_nano)
    lasted = [(each.name, (each.end_time_unix_nano - each.start_time_unix_nano) / 1e9) for each in phases]
    assert lasted == [("reading", 0.25), ("functions", 1.25), ("publishing", 0.5)]
    assert phases[0].start_time_unix_nano == begin
    assert phases[-1].end_time_unix_nano == end
    assert len(collector.spans) == 5


def test_a_lane_that_fails_is_a_span_with_its_error(collector: Collector) -> None:
    with exporting.traces("delays", print):
        batches.failed(LANE, report(FIRST, "failed", error="disk full: /data", number=3))
    (span,) = collector.spans
    assert (span.name, span.status.code, span.status.message) == ("lane failed", 2, "disk full: /data")
    assert collectors.values(span.attributes)["anabranch.attempt"] == 3


def test_the_name_of_the_service_is_the_users(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "flights")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=staging")
    with exporting.traces("delays", print):
        batches.committed(LANE, BATCH, rows=12)
    found = collector.resources[0]
    assert (found["service.name"], found["deployment.environment.name"]) == ("flights", "staging")


def test_metrics_have_the_names_and_labels_that_prometheus_sees(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "100")
    coordinator = Coordinator(Store("sqlite://"), Clock(), now=lambda: 7.0)
    coordinator.start(plan())
    Seat(coordinator).beat(report(FIRST, "running", 5, ends={str(FLIGHTS): 12}))
    known = {each.name for each in metrics.families()}
    assert {each.name for each in metrics.families(coordinator.jobs())} == known
    with exporting.metrics("anabranch", lambda: metrics.families(coordinator.jobs()), print):
        collector.wait(lambda: collector.metrics)
    lag = next(each for each in collector.metrics if each.name == "anabranch_lane_lag_records")
    (point,) = [each for each in lag.gauge.data_points if collectors.values(each.attributes)["lane"] == FIRST]
    assert point.as_double == 7
    assert collectors.values(point.attributes).keys() == {"job", "lane", "stage", "container"}
    invalid = next(each for each in collector.metrics if each.name == "anabranch_invalid_heartbeats")
    assert invalid.sum.is_monotonic
    assert {each.name for each in collector.metrics} <= known


def test_a_coordinator_that_has_no_store_reports_nothing_and_goes_on(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "100")
    away = [True]

    def collect() -> list[metrics.Metric]:
        if away[0]:
            raise RuntimeError("no store")
        return metrics.families()

    with exporting.metrics("anabranch", collect, print):
        time.sleep(0.3)
        assert not collector.metrics
        away[0] = False
        collector.wait(lambda: collector.metrics)


def test_a_store_that_is_away_is_asked_once_for_all_instruments() -> None:
    asked = []

    def collect() -> list[metrics.Metric]:
        asked.append(time.monotonic())
        time.sleep(1.2)  # a database's time limit, longer than figures are fresh
        raise RuntimeError("no store")

    reader = InMemoryMetricReader()
    gauges.observe(MeterProvider([reader]).get_meter("anabranch"), collect, metrics.families())
    assert reader.get_metrics_data() is None
    assert len(asked) == 1


def test_nothing_is_exported_unless_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ENDPOINT, raising=False)
    code = """
import sys
from anabranch.telemetry import exporting
with exporting.traces("delays", print), exporting.metrics("delays", list, print):
    assert "opentelemetry" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_what_is_missing_is_told_and_the_job_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENDPOINT, "http://127.0.0.1:1")
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    said: list[str] = []
    with exporting.traces("delays", said.append):
        batches.committed(LANE, BATCH, rows=12)
    (line,) = said
    assert line.startswith("warning: traces aren't exported: opentelemetry.sdk.trace isn't installed\n")
    assert "pip install 'anabranch[opentelemetry]'" in line


def test_a_variable_that_opentelemetry_refuses_is_told_and_the_job_goes_on(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "-3")
    said: list[str] = []
    with exporting.traces("delays", said.append):
        batches.committed(LANE, BATCH, rows=12)
    (line,) = said
    assert line.startswith("warning: traces aren't exported: OpenTelemetry refuses a variable: max_queue_size must be")
    assert not collector.spans


AWAY = """
import time
from anabranch.telemetry import batches, exporting
from tests.unit.telemetry.test_exporting import BATCH, LANE

with exporting.traces("delays", print):
    for _ in range(20):
        batches.committed(LANE, BATCH, rows=12)
        time.sleep(0.1)
    begun = time.monotonic()
assert time.monotonic() - begun < 8
"""


def test_a_collector_that_is_away_is_told_once_and_delays_the_end_by_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a process of its own: pytest hears what is logged."""
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        monkeypatch.setenv(ENDPOINT, f"http://127.0.0.1:{closed.getsockname()[1]}")
        done = subprocess.run([sys.executable, "-c", AWAY], capture_output=True, text=True, check=False, cwd=HERE)
    assert (done.returncode, done.stderr) == (0, "")
    (line,) = done.stdout.splitlines()
    assert line.startswith("warning: OpenTelemetry: ")
    assert "refused" in line


@pytest.mark.long
def test_a_collector_that_answers_nothing_delays_the_end_by_little(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv(ENDPOINT, f"http://127.0.0.1:{silent.getsockname()[1]}")
        begun = time.monotonic()
        with exporting.traces("delays", print):
            batches.committed(LANE, BATCH, rows=12)
        assert time.monotonic() - begun < 8.0
