"""Rows that come too late for their windows: put aside once and counted by SSP, or they fail the lane."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from anabranch import Job, crash_points, session, tumbling
from tests.integration.harness import Site

START = datetime(2013, 1, 1, tzinfo=UTC)


class Crash(Exception):
    """The process dies."""


def put(site: Site, *minutes: float) -> None:
    rows = [{"at": (START + timedelta(minutes=each)).isoformat()} for each in minutes]
    site.put("in", 0, rows, [b"k"] * len(rows))


@pytest.mark.long
def test_late_rows_are_put_aside_once_and_no_others_or_fail_the_lane(site: Site) -> None:
    """Spark, which would drop them, finds none that is late. The watermark is at minute 590."""
    site.log.create("in", 1)
    job = Job("j")
    read = job.read("in", key="k string", schema="at timestamp", event_time="at", watermark="10 minutes")
    behind = read.partition_by("k", name="again")
    hours, sessions = tumbling("1 hour"), session("20 minutes")
    behind.window(hours, on_late="dead-letter").agg(n="count(*)", name="hours").write("hours")
    behind.window(sessions, on_late="dead-letter").agg(n="count(*)", name="sessions").write("sessions")
    behind.window(hours, on_late="fail").agg(n="count(*)", name="strict").write("strict")
    deployed = site.deployed(job)
    put(site, 5, 595, 600)
    deployed.ran()
    put(site, 555, 569.5, 571, 10, 605)

    def crash(step: str, lane: str, batch: int) -> None:
        if step == crash_points.PUBLISHED and groups[lane] == "sessions":
            raise Crash

    groups = {lane.id: lane.group for lane in deployed.lanes}
    with crash_points.watched(crash):
        reports = {groups[lane]: report for lane, report in deployed.run().items()}
    error = str(reports["strict"].error)
    assert "agg 'strict' (test_late.py:" in error
    assert "offset 6 of partition 0 of embedded/in is late: its last window ended 2013-01-01T01:00:00.000000Z" in error
    assert 'window(..., on_late="dead-letter")' in error
    assert reports["hours"].event_time.late == {"embedded/j-again-1/0": 1}
    put(site, 900)
    again = {groups[lane]: report for lane, report in deployed.run().items()}
    assert [again[name].event_time.late_groups for name in ("hours", "sessions")] == [0, 0]
    late: dict[str, list[str]] = {"hours": [], "sessions": []}
    for record in site.all_records("j-again-1-dead-letters"):
        headers = {each["key"]: each["value"].decode() for each in record["headers"]}
        assert headers["anabranch.error"].startswith("late: its last window ended 2013-01-01T")
        assert ", and the watermark was 2013-01-01T09:" in headers["anabranch.error"]
        late[headers["anabranch.operator"].split("'")[1]].append(json.loads(record["value"])["at"][11:19])
    assert late == {"hours": ["00:10:00"], "sessions": ["09:15:00", "09:29:30", "00:10:00"]}
    counted = {v["window_start"][11:16]: v["n"] for v in site.values("hours")}
    assert counted == {"00:00": 1, "09:00": 4, "10:00": 2}
