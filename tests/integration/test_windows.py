"""Sessions through a split and a compaction, and windows of processing time through a crash and a clock set back."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from pyspark.sql import SparkSession

from anabranch import Job, crash_points, session
from anabranch.cli import compact
from anabranch.container.checkpoint.folder import Folder
from anabranch.container.error_text import is_final
from anabranch.coordinator.maintenance import stopped_job
from anabranch.errors import ClockError
from anabranch.spark.internals import batch_clock
from tests.integration.harness import Deployed, Site
from tests.integration.parted import KEYS, Parted
from tests.support.surfaces import lacking

START = datetime(2013, 1, 1, tzinfo=UTC)
GAP = timedelta(minutes=40)


@pytest.mark.long
def test_sessions_are_exact_through_a_split_and_without_the_state_of_others(spark: SparkSession, site: Site) -> None:
    """Each record of a key comes exactly a gap after the one before: one session, until a day later. The last part
    begins when the watermark is at the end of sessions that go on.
    """
    job = Job("j")
    read = job.read("in", key="k string", schema="at timestamp", event_time="at", watermark="0 seconds")
    read.window(session("40 minutes")).agg(n="count(*)", name="sessions").write("sessions")
    parted = Parted(site, job, lambda minute: {"at": (START + timedelta(minutes=minute)).isoformat()})
    parted.put(40)
    parted.scale(4, 2)
    for partition in (0, 1):
        site.put("in", partition, [{"at": (START + timedelta(hours=1)).isoformat()}], [b"other"])
    parted.put(20)
    store = parted.store()
    done = compact.compacted(store, spark, site.lane_folders.root, stopped_job.lanes(store, "j"))
    own, foreign = 2 * 41, 2 * 20
    assert sum(each.rows for each in done) == own + foreign, "half of the others' have ended, for they didn't go on"
    assert sum(each.rows_now for each in done) == own

    parted.job.lanes = [msgspec.structs.replace(lane, deployment=0) for lane in stopped_job.lanes(store, "j")]
    parted.job.epoch = 100
    parted.put(30)
    parted.read += 60 * 24
    parted.put(1)
    found = Counter(
        (v["k"], datetime.fromisoformat(v["window_start"]), datetime.fromisoformat(v["window_end"]), v["n"])
        for v in site.values("sessions")
        if v["k"] != "other"
    )
    assert found == Counter(each for n in range(40) for each in [_session(n)] * 2)
    assert sum(report.event_time.late_groups for report in parted.job.reports.values()) == 0


def _session(first: int) -> tuple[str, datetime, datetime, int]:
    """The session of the key whose first record is at that minute: key, start, end and number of records."""
    minutes = range(first, 90, 40)
    begun = START + timedelta(minutes=first)
    return KEYS[first * 7 % 40], begun, START + timedelta(minutes=minutes[-1]) + GAP, len(minutes)


class Crash(Exception):
    """The process dies."""


def test_windows_of_processing_time_close_by_themselves_and_a_replay_has_the_same(site: Site) -> None:
    site.log.create("in", 2)
    job = Job("j")
    read = job.read("in", key="k string", schema="n int")
    read.window(session("1 second"), time="processing").agg(n="count(*)").write("out")
    deployed = site.deployed(job)
    (lane,) = deployed.lanes
    site.put("in", 0, [{"n": 1}] * 5, [b"a"] * 5)
    site.put("in", 1, [{"n": 1}] * 3, [b"b"] * 3)

    def crash(step: str, lane: str, batch: int) -> None:
        if step == crash_points.PUBLISHED and batch == 0:
            raise Crash

    with crash_points.watched(crash):
        assert "Crash" in deployed.failure()
    (lane,) = deployed.lanes
    planned = deployed.folder(lane).batch(0).at
    _until(planned + 2_500)
    deployed.ran()
    at = datetime.fromtimestamp(planned / 1000, UTC)
    found = {(v["k"], v["n"], v["window_start"], v["window_end"]) for v in site.values("out")}
    begun, ended = (each.strftime("%Y-%m-%dT%H:%M:%S.%fZ") for each in (at, at + timedelta(seconds=1)))
    assert found == {("a", 5, begun, ended), ("b", 3, begun, ended)}

    _plan_an_hour_ago(site, deployed.folder(lane), {0: 6, 1: 3})
    deployed.ran()
    _until(int(time.time() * 1000) + 2_500)
    deployed.ran()
    assert [(v["k"], v["n"]) for v in site.values("out")][2:] == [("a", 1)], "a record was late, and lost"


def an_hour_ahead(site: Site) -> tuple[Deployed, int]:
    """A job with a window of a record, and one of three that is still open, whose batch was planned an hour after the
    time that it is now; and when that is, in Unix ms."""
    site.log.create("in", 1)
    job = Job("j")
    read = job.read("in", key="k string", schema="n int")
    read.window(session("1 second"), time="processing").agg(n="count(*)").write("out")
    deployed = site.deployed(job)
    site.put("in", 0, [{"n": 1}], [b"a"])
    deployed.ran()
    folder = deployed.folder(deployed.lanes[0])
    site.put("in", 0, [{"n": 2}] * 3, [b"a"] * 3)
    last = folder.entry(folder.planned())
    later = replace(last, metadata={**last.metadata, "batchTimestampMs": last.at + 3_600_000})
    folder.plan(later.with_positions(next(iter(last.streams().values())), {0: 4}))
    deployed.ran()
    return deployed, later.at


@pytest.mark.long
def test_windows_of_processing_time_go_on_where_the_clock_was_set_back(site: Site) -> None:
    """The machine's clock was set back, or the lane has come from a machine whose clock is an hour ahead."""
    deployed, ahead = an_hour_ahead(site)
    folder = deployed.folder(deployed.lanes[0])
    closed: list[tuple[str, int]] = []
    deadline = time.monotonic() + 120
    while ("b0", 2) not in closed and time.monotonic() < deadline:  # the lane's time goes on while its query runs
        site.put("in", 0, [{"n": 3}] * 2, [b"b%d" % folder.planned()] * 2 if closed else [b"b0"] * 2)
        deployed.ran()
        batches = [folder.batch(number).at for number in range(folder.planned() + 1)]
        assert batches == sorted(batches), "time went back"
        closed = [(v["k"], v["n"]) for v in site.values("out")]
    assert closed[:3] == [("a", 1), ("a", 3), ("b0", 2)], "windows that are open close after their size, not in an hour"
    ends = [datetime.fromisoformat(v["window_end"]).timestamp() * 1000 for v in site.values("out")]
    assert ends[1] > ahead


def test_a_lane_that_follows_the_machine_s_clock_plans_again_where_that_was_set_back(site: Site) -> None:
    """Spark lacks what a lane's own time needs."""
    with lacking(batch_clock.SURFACE):
        deployed, _ = an_hour_ahead(site)
        site.put("in", 0, [{"n": 3}] * 2, [b"b"] * 2)
        failures = 0
        while (report := deployed.run()[deployed.lanes[0].id]).phase == "failed":
            assert "the clock of this machine was set back by 35" in str(report.error)
            failures += 1
            assert failures < 5, "each batch is tried again, and then it goes well"
    assert failures
    assert not is_final(ClockError("", "")), "a container would not try again"
    folder = deployed.folder(deployed.lanes[0])
    assert folder.planned_positions(folder.planned())["in"] == {0: 6}
    assert [(v["k"], v["n"]) for v in site.values("out")] == [("a", 1)], "later windows are open"


def _until(unix_ms: int) -> None:
    time.sleep(max(0.0, unix_ms / 1000 - time.time()))


def _plan_an_hour_ago(site: Site, folder: Folder, positions: dict[int, int]) -> None:
    """One more record, and a batch with it, planned as if the clock had been set back."""
    site.put("in", 0, [{"n": 2}], [b"a"])
    last = folder.entry(folder.planned())
    assert last.watermark > 0
    back = replace(last, metadata={**last.metadata, "batchTimestampMs": last.at - 3_600_000})
    folder.plan(back.with_positions(next(iter(last.streams().values())), positions))
