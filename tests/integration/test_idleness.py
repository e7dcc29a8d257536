"""A partition from which nothing comes holds windows back only for a while: in its own lane and behind it."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from anabranch import Job, tumbling
from anabranch.protocol.lane_report import LaneReport
from tests.integration.harness import PATIENCE, Site

HOUR = timedelta(hours=1)
START = datetime(2013, 1, 1, tzinfo=UTC)
ACTIVE, QUIET = "embedded/in/0", "embedded/in/1"


def hourly() -> Job:
    job = Job("j")
    read = job.read("in", key="k string", schema="at timestamp", event_time="at", watermark="10 minutes")
    read.partition_by("k").window(tumbling("1 hour")).agg(n="count(*)").write("hourly")
    return job


def put(site: Site, partition: int, *hours: float) -> None:
    rows = [{"at": (START + HOUR * each).isoformat()} for each in hours]
    site.put("in", partition, rows, [b"k"] * len(rows))


def hours_of(site: Site) -> list[int]:
    """The hours whose windows came out."""
    return sorted(datetime.fromisoformat(v["window_start"]).hour for v in site.values("hourly"))


def until(condition: Callable[[], bool], reports: Callable[[], dict[str, LaneReport]]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, reports()
        time.sleep(0.1)


@pytest.mark.long
def test_a_partition_without_records_holds_windows_back_only_for_a_while(site: Site) -> None:
    """Each partition has a lane of its own: to the lane behind them, it is a lane that is idle."""
    site.log.create("in", 2)
    deployed = site.deployed(hourly(), idle_after="2 seconds", containers=2)
    (quiet,) = [lane.id for lane in deployed.lanes if QUIET in map(str, lane.ssps)]
    (active,) = [lane.id for lane in deployed.lanes if ACTIVE in map(str, lane.ssps)]
    put(site, 0, 0.5, 1.5, 2.5, 3.5)
    with deployed.running() as reports:
        until(lambda: hours_of(site) == [0, 1, 2], reports)
        assert (reports()[quiet].event_time.idle, reports()[quiet].event_time.held_by) == ((QUIET,), None)
        put(site, 1, 3.6)
        until(lambda: reports()[quiet].event_time.held_by == QUIET, reports)
        assert reports()[quiet].event_time.idle == ()
        until(
            lambda: QUIET in reports()[quiet].event_time.idle and ACTIVE in reports()[active].event_time.idle, reports
        )

    deployed.settings = site.settings(idle_after="1 hour", containers=2)
    put(site, 0, 5.5, 6.5)
    with deployed.running() as reports:
        until(lambda: hours_of(site) == [0, 1, 2, 3, 5], reports)
        assert reports()[quiet].event_time.idle == (QUIET,), "it was idle when the lane ended, and nothing has come"
        assert reports()[active].event_time.idle == ()
    assert [v["n"] for v in site.values("hourly") if "T03" in v["window_start"]] == [2]
