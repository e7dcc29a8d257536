"""What Prometheus is told, read back by its own parser."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families as parsed

from anabranch.coordinator.api import listening
from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.store import Store
from anabranch.protocol.container import Heartbeat
from anabranch.protocol.standby import StandbyReport
from tests.unit.coordinator.helpers import FIRST, FLIGHTS, SECOND, Clock, Seat, plan, report

Labels = frozenset[tuple[str, str]]


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator(Store("sqlite://"), Clock(), now=lambda: 7.0)


@pytest.fixture
def url(coordinator: Coordinator) -> Iterator[str]:
    server = listening.serve(coordinator)
    yield server.url
    server.close()


def scraped(url: str) -> dict[tuple[str, Labels], float]:
    answer = httpx.get(f"{url}/metrics", trust_env=False)
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    families = parsed(answer.text)
    return {(s.name, frozenset(s.labels.items())): s.value for family in families for s in family.samples}


def labels(**given: str) -> Labels:
    return frozenset(given.items())


def test_a_job_that_runs(coordinator: Coordinator, url: str) -> None:
    coordinator.start(plan())
    seat = Seat(coordinator)
    ends = {str(FLIGHTS): 12}
    told: dict[str, Any] = {"ends": ends, "batch": 3, "seconds": 0.5, "rows": 40, "number": 2, "stalls": 1}
    told |= {"watermark": 5500, "late_groups": 4, "late": {str(FLIGHTS): 3}, "dead_letters": 30, "dropped": 2}
    seat.beat(report(FIRST, "running", 5, **told), report(SECOND, "failed", error="boom"))
    found = scraped(url)
    assert found["anabranch_job", labels(job="delays", state="running")] == 1
    assert found["anabranch_job_seats", labels(job="delays")] == 1
    assert found["anabranch_job_containers", labels(job="delays")] == 1
    assert found["anabranch_leader", labels()] == 1
    of = {"job": "delays", "stage": "s", "container": seat.me.container}
    assert {
        name.removeprefix("anabranch_lane_"): value for (name, its), value in found.items() if ("lane", FIRST) in its
    } == {
        "lag_records": 7,
        "batch": 3,
        "batch_seconds": 0.5,
        "rows": 40,
        "rows_per_second": 0,
        "attempts": 2,
        "stalls": 1,
        "failed": 0,
        "watermark_seconds": 5.5,
        "dead_letters": 30,
        "dropped_records": 2,
        "late_groups": 4,
        "late_rows": 3,
        "awaits_since_seconds": 0,
        "running_batch_planned_records": 0,
        "running_batch_done_records": 0,
        "running_batch_seconds": 0,
    }
    assert found["anabranch_lane_late_rows", labels(lane=FIRST, ssp=str(FLIGHTS), **of)] == 3
    assert found["anabranch_lane_failed", labels(lane=SECOND, **of)] == 1
    assert found["anabranch_container_lease_seconds", labels(job="delays", container=seat.me.container, rack="")] == 10


def test_there_is_no_lag_while_the_ends_of_the_inputs_are_not_known(coordinator: Coordinator, url: str) -> None:
    coordinator.start(plan())
    seat = Seat(coordinator)
    for known in (True, False):
        seat.beat(report(FIRST, "running", 5, ends={str(FLIGHTS): 12}, ends_known=known))
        has = {name for name, its in scraped(url) if ("lane", FIRST) in its}
        assert ("anabranch_lane_lag_records" in has) is known


def test_the_standbys_of_lanes(coordinator: Coordinator, url: str) -> None:
    coordinator.start(plan())
    seat = Seat(coordinator)
    whole = StandbyReport(lane=FIRST, epoch=1, number=0, batch=5)
    half = StandbyReport(lane=FIRST, epoch=1, number=1, error="full")
    who: dict[str, Any] = {"container": seat.me.container, "epoch": seat.me.epoch}
    lanes = (report(FIRST, "running", batch=7),)
    coordinator.heartbeat(Heartbeat(**who, number=1, lanes=lanes, copies=(whole, half)))
    found = scraped(url)
    of = {"job": "delays", "lane": FIRST, "container": seat.me.container, "rack": ""}
    assert {key: value for key, value in found.items() if key[0].startswith("anabranch_standby")} == {
        ("anabranch_standby_behind_batches", labels(number="0", **of)): 2,
        ("anabranch_standby_failed", labels(number="0", **of)): 0,
        ("anabranch_standby_failed", labels(number="1", **of)): 1,
    }


def test_beats_of_those_who_have_no_seat_are_counted(coordinator: Coordinator, url: str) -> None:
    coordinator.start(plan())
    former = Seat(coordinator, pid=1)
    Seat(coordinator, pid=2)
    assert scraped(url)["anabranch_invalid_heartbeats_total", labels()] == 0
    former.beat()
    coordinator.heartbeat(Heartbeat(container="delays:0:99", epoch=99, number=1))
    assert not coordinator.holds_seat("execution-1")
    assert coordinator.holds_seat("execution-2")
    assert scraped(url)["anabranch_invalid_heartbeats_total", labels()] == 3


def test_a_job_that_nobody_serves(url: str, coordinator: Coordinator) -> None:
    coordinator.start(plan())
    coordinator.stop("delays")
    assert coordinator.release("delays")
    found = scraped(url)
    assert found["anabranch_job", labels(job="delays", state="stopped")] == 1
    assert not [name for name, _ in found if name.startswith(("anabranch_lane", "anabranch_container"))]
