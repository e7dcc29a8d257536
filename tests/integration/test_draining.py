"""Lanes that drain: they stop where they should, all their windows come out, and the next ones begin afresh in time."""

from __future__ import annotations

import itertools
import json
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession

from anabranch import Job, crash_points, tumbling
from anabranch.container.lane.runner import LaneRunner
from anabranch.container.retries import Standstill
from anabranch.coordinator.jobs import reports
from anabranch.model.lane import LaneState
from anabranch.planning import plan as planning
from anabranch.planning.transition import after_drain
from anabranch.protocol.drain import DrainOrder
from anabranch.spark.internals import query_hold
from anabranch.spark.internals.query_hold import HeldQuery
from anabranch.testing import DRAIN, run
from tests.integration.flights import SCHEMA, closed, computed, flights, put, written
from tests.integration.harness import PATIENCE, Deployed, Site, always
from tests.support.surfaces import lacking


def chained() -> Job:
    job = Job("j")
    read = job.read("flights", key="tail string", schema=SCHEMA, event_time="at", watermark="10 minutes")
    read.partition_by("dest").window(tumbling("1 hour")).agg(n="count(*)").write("hourly")
    read.partition_by("dest", name="again").agg(n="count(*)").write("counts")
    return job


def until(what: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < end
        time.sleep(0.05)


class Drained:
    """The lanes of a job in runners of their own, that drain when they are told to."""

    def __init__(self, run: Deployed) -> None:
        self.run = run
        self.runners: list[LaneRunner] = []
        for lane in run.lanes:
            runner = LaneRunner(
                run.lane_folders,
                lane,
                run.epoch,
                run.building(lane, {}),
                always(lane.begins),
                None,
                Standstill(math.inf),
            )
            self.runners.append(runner)

    def begin(self, how: DrainOrder | None = None) -> None:
        for runner in self.runners:
            runner.drain(how)
            runner.start()
            runner.acknowledge(upstream_ended=False)

    def has_taken_in(self) -> bool:
        """Whether a source has been read: every lane's first batch runs, with or without records."""
        return any(at > 0 for r in self.runners if r.lane.stage == "0" for at in r.report.progress.positions.values())

    def halted(self) -> dict[str, int]:
        """Where each source stands once the lanes that read them have halted."""
        first = [r for r in self.runners if r.lane.stage == "0"]
        for runner in first:
            runner.drain(DrainOrder(uuid="1"))
        until(lambda: all(r.report.drain.halted == "1" for r in first))
        places: dict[str, int] = {}
        for runner in first:
            for ssp, at in runner.report.progress.positions.items():
                places[ssp] = max(at, places.get(ssp, at))
        return places

    def end(self, to: dict[str, int]) -> None:
        for stage in sorted({r.lane.stage for r in self.runners}):
            its = [r for r in self.runners if r.lane.stage == stage]
            for runner in its:
                runner.drain(DrainOrder(uuid="1", until=to, last=True))
                runner.acknowledge(upstream_ended=True)
            for runner in its:
                assert runner.join(PATIENCE), runner.report
                assert (runner.report.phase, runner.report.drain.drained) == ("ended", True), runner.report.error[:6000]
        self.run.lanes = [reports.applied(runner.lane, runner.report) for runner in self.runners]
        self.run.lanes = [
            msgspec.structs.replace(lane, folder_epoch=runner.report.attempt.folder_epoch)
            for lane, runner in zip(self.run.lanes, self.runners, strict=True)
        ]
        assert {lane.state for lane in self.run.lanes} == {LaneState.CLOSED}


def test_all_windows_come_out_of_what_was_taken_in(site: Site) -> None:
    site.log.create("flights", 2)
    ahead, behind = flights(1, hours=30), flights(2, hours=8)
    put(site, 0, ahead)
    put(site, 1, behind)
    run = site.deployed(chained(), max_rows_per_batch=40)
    drained = Drained(run)
    drained.begin()
    until(drained.has_taken_in)
    to = drained.halted()
    drained.end(to)
    taken = [*ahead[: to["embedded/flights/0"]], *behind[: to["embedded/flights/1"]]]
    assert taken
    assert written(site) == computed(taken)
    assert counted(site) == Counter(f["dest"] for f in taken)

    second = followed(run)
    for lane in second.lanes:
        if lane.stage != "0":
            left = {p.ssp: site.system.ends(p.ssp.stream)[p.ssp.partition] - p.offset for p in lane.starting}
            assert set(left.values()) == {0}, "a stream between stages would be read again"
    later = flights(1, hours=31)[-1:]  # however far the first deployment came, each partition has a time in the second
    put(site, 0, later)
    put(site, 1, behind)
    before = site.all_records("hourly")
    second.ran()
    rest = [*ahead[to["embedded/flights/0"] :], *later, *behind[to["embedded/flights/1"] :], *behind]
    assert counted(site) == Counter(f["dest"] for f in [*taken, *rest])
    watermark = min(at for report in second.reports.values() if (at := report.event_time.watermark))
    rows = [json.loads(r["value"]) for r in site.all_records("hourly") if r not in before]
    found = {(v["dest"], v["window_start"][:16]): v["n"] for v in rows}
    assert found == closed(computed(rest), watermark)
    assert len(found) > 5
    assert sum(report.event_time.late_groups for report in second.reports.values()) == 0


@pytest.mark.long
def test_told_before_it_starts_it_reads_nothing(site: Site) -> None:
    site.log.create("flights", 2)
    put(site, 0, flights(1, hours=3))
    run = site.deployed(chained())
    drained = Drained(run)
    drained.begin(DrainOrder(uuid="1"))
    to = drained.halted()
    assert set(to.values()) == {0}
    drained.end(to)
    assert not [stream for stream in site.system.streams() if stream != "flights" and site.all_records(stream)]
    assert {p.offset for lane in followed(run).lanes for p in lane.starting} == {0}


@pytest.mark.long
def test_a_lane_drains_with_the_query_that_runs_and_goes_on_with_it_if_that_is_taken_back(site: Site) -> None:
    site.log.create("flights", 1)
    its = flights(1, hours=30)
    put(site, 0, its)
    run = site.deployed(chained(), max_rows_per_batch=20)
    drained = Drained(run)
    drained.begin()
    first = [r for r in drained.runners if r.lane.stage == "0"]
    until(drained.has_taken_in)
    to = drained.halted()["embedded/flights/0"]
    assert 0 < to < len(its)
    runs = {r.lane.id: r.report.attempt.run for r in first}
    for runner in first:
        runner.drain(None)
    until(lambda: all(r.report.progress.positions["embedded/flights/0"] > to for r in first))
    drained.halted()
    drained.end({"embedded/flights/0": len(its)})
    assert {r.lane.id: r.report.attempt.run for r in first} == runs
    assert counted(site) == Counter(f["dest"] for f in its)
    assert written(site) == computed(its)
    rows = [(row["window_end"], "drained" in row) for row in site.values("hourly")]
    watermark = max(datetime.fromisoformat(f["at"]) for f in its) - timedelta(minutes=10)
    assert {(datetime.fromisoformat(end) > watermark, cut) for end, cut in rows} == {(True, True), (False, False)}


@pytest.mark.parametrize("why", ["the surface is missing", "Spark never comes there"])
@pytest.mark.long
def test_a_lane_whose_query_can_not_be_held_drains_with_queries_of_their_own(
    site: Site, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    site.log.create("flights", 1)
    its = flights(1, hours=10)
    put(site, 0, its)
    job = Job("j")
    read = job.read("flights", key="tail string", schema=SCHEMA, event_time="at", watermark="10 minutes")
    read.window(tumbling("1 hour")).agg(n="count(*)").write("hourly")
    drained = Drained(site.deployed(job, max_rows_per_batch=40))
    held: list[HeldQuery] = []
    for way in ("run", "begin", "go"):
        monkeypatch.setattr(HeldQuery, way, held.append)
    with ExitStack() as without:
        if why == "the surface is missing":
            without.enter_context(lacking(query_hold.SURFACE))
        else:
            monkeypatch.setattr(query_hold, "PLANNING_CALL", ".aMethodOfAnotherVersion(")
            monkeypatch.setattr(query_hold, "RUNS_WITHIN", 1.0)
        drained.begin()
        until(drained.has_taken_in)
        to = drained.halted()["embedded/flights/0"]
        drained.end({"embedded/flights/0": to})
    assert sum(row["n"] for row in site.values("hourly")) == to
    assert not held


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.long
def test_a_lane_that_is_stopped_in_its_last_batch_ends_well(site: Site, at_once: bool) -> None:
    """With all its windows out; or with that batch pending, which the next process finishes."""
    site.log.create("flights", 1)
    its = flights(1, hours=5)
    put(site, 0, its)
    job = Job("j")
    read = job.read("flights", key="tail string", schema=SCHEMA, event_time="at", watermark="10 minutes")
    read.window(tumbling("1 hour")).agg(n="count(*)").write("hourly")
    drained = Drained(site.deployed(job))
    (runner,) = drained.runners
    last: list[int] = []
    stopped: list[int] = []

    def stop(step: str, _lane: str, batch: int) -> None:
        if step == crash_points.ENDING:
            last.append(batch)
        if step == crash_points.PLANNED and batch in last:
            runner.stop(at_once)
            stopped.append(batch)
            if at_once:
                time.sleep(1)
                raise RuntimeError("it was broken off")

    with crash_points.watched(stop):
        drained.begin()
        until(drained.has_taken_in)
        runner.drain(DrainOrder(uuid="1", until={"embedded/flights/0": len(its)}, last=True))
        assert runner.join(PATIENCE)
    assert stopped == last
    report = runner.report
    assert (report.phase, report.drain.drained, report.attempt.pending) == ("ended", not at_once, at_once), report.error
    assert (sum(row["n"] for row in site.values("hourly")) == len(its)) is not at_once


def counted(site: Site) -> dict[str, int]:
    last: dict[str, int] = {}
    for value in site.values("counts"):
        assert value["n"] > last.get(value["dest"], 0)
        last[value["dest"]] = value["n"]
    return last


def followed(run: Deployed) -> Deployed:
    """The deployment after a drained one, of the same job."""
    numbers = itertools.count(100)
    next_id = lambda: f"{next(numbers):08x}"  # noqa: E731
    graph, known = run.job.graph, {lane.id: lane for lane in run.lanes}
    planned = planning.lanes_of(run.plan, run.settings.job.state_partitions, next_id)
    lanes = after_drain.begun(planned, graph, known, next_id)
    lanes = tuple(msgspec.structs.replace(lane, deployment=2) for lane in lanes)
    return replace(run, lanes=list(lanes), epoch=run.epoch + 1)


def hours(several: Iterable[dict[str, Any]]) -> Counter[tuple[str, str]]:
    return Counter((row["dest"], row["at"][:13]) for row in several)


@pytest.mark.long
def test_a_window_that_a_drain_cuts_is_two_rows(spark: SparkSession) -> None:
    """Two chained stages; windows of windows' rows, and of a stage inside the query."""
    job = Job("j")
    read = job.read("in", key="k string", schema=SCHEMA, event_time="at", watermark="10 minutes")
    stage = read.partition_by("dest", name="first").partition_by("dest", name="second")
    stage.window(tumbling("1 hour")).agg(n="count(*)").write("hourly")
    inside = read.partition_by("dest", via="spark", name="inside")
    inside.window(tumbling("1 hour")).agg(n="count(*)").write("hourly-inside")
    before, after = flights(1, hours=4, each=6), flights(2, hours=9, each=6)[20:]
    rows = [{**row, "k": row["dest"]} for row in (*before, *after)]
    result = run(
        job, {"in": [*rows[: len(before)], DRAIN, *rows[len(before) :], DRAIN]}, timeout=PATIENCE * 4, partitions=1
    )
    for stream in ("hourly", "hourly-inside"):
        found = [((v["dest"], v["window_start"][:13]), v["n"]) for v in result[stream]]
        assert sorted(found) == sorted([*hours(before).items(), *hours(after).items()])
        assert len({window for window, _ in found}) < len(found)
        cut = {(v["dest"], v["window_start"][:13]) for v in result[stream] if v.get("drained")}
        newest = [max(row["at"] for row in each)[:13] for each in (before, after)]
        assert {hour for _, hour in cut} >= set(newest)
        assert min(hours(before))[1] not in {hour for _, hour in cut}
