"""A container told by a coordinator, both in this process: a job runs until it is caught up, and says so."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from anabranch import Job, crash_points, tumbling
from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.store.store import Store
from anabranch.errors import ConflictError
from anabranch.protocol.deployment import StartRequest
from anabranch.protocol.status import JobStatus
from tests.integration.harness import Deployed, Site
from tests.integration.serving import serve, until


def started(run: Deployed, until_caught_up: bool) -> Coordinator:
    """A coordinator to which a new deployment was handed over."""
    coordinator = Coordinator(Store("sqlite://"))
    lanes = tuple(run.lanes)
    coordinator.start(
        StartRequest(
            graph=run.job.graph, model=run.plan.model, lanes=lanes, fingerprint={}, until_caught_up=until_caught_up
        )
    )
    return coordinator


def caught_up(site: Site, job: Job) -> JobStatus:
    """Hand a new deployment over, and run it to the ends that its inputs have now."""
    run = site.deployed(job)
    coordinator = started(run, until_caught_up=True)
    serve(run, coordinator)
    return coordinator.status(job.name)


@pytest.mark.parametrize("via", ["stream", "spark"])
@pytest.mark.suite(cases=1)
def test_a_job_runs_until_it_is_caught_up(site: Site, via: Any) -> None:
    site.log.create("in", 2)
    for partition in range(2):
        site.put("in", partition, [{"d": f"d{n % 2}"} for n in range(10)])
    job = Job("j")
    job.read("in", schema="d string").partition_by("d", via=via).agg(c="count(*)").write("out")
    status = caught_up(site, job)
    assert status.state == "stopped"
    assert {r["key"]: json.loads(r["value"])["c"] for r in site.all_records("out")} == {b"d0": 10, b"d1": 10}


def test_a_job_that_begins_at_the_newest_records_reads_none_of_the_older(site: Site) -> None:
    site.log.create("in", 1)
    site.put("in", 0, [{"n": 1}])
    job = Job("j")
    job.read("in", schema="n int", start="latest").write("out")
    assert caught_up(site, job).state == "stopped"
    assert site.all_records("out") == []


def test_a_lane_that_is_stopped_in_a_batch_commits_it_and_begins_no_other(site: Site) -> None:
    site.log.create("in", 1)
    site.put("in", 0, [{"n": n} for n in range(100)])
    job = Job("j")
    job.read("in", schema="n int").write("out")
    run = site.deployed(job, max_rows_per_batch=10)
    begun: list[int] = []
    leaving = threading.Event()

    def see(step: str, lane: str, batch: int) -> None:
        if step == crash_points.PLANNED:
            begun.append(batch)
        if (step, batch) == (crash_points.PUBLISHED, 2):
            leaving.set()
            while any(query.isActive for query in site.spark.streams.active if query.name == lane):
                time.sleep(0.01)

    with crash_points.watched(see):
        serve(run, started(run, until_caught_up=False), leaving=leaving)
    assert begun == [0, 1, 2]
    assert len(site.all_records("out")) == 30
    folder = run.folder(msgspec.structs.replace(run.lanes[0], folder_epoch=1))
    assert (folder.committed(), folder.pending) == (2, False)


@pytest.mark.long
def test_two_containers_share_a_job(site: Site) -> None:
    """Windows close by the slower of the two, which begins only when the first one has read all."""
    site.log.create("in", 4)
    hours = [{"d": f"d{n % 7}", "at": f"2026-01-01T{n // 6:02}:{n % 6}0:00Z"} for n in range(120)]
    for partition in range(4):
        site.put("in", partition, hours)
    job = Job("j")
    read = job.read("in", schema="d string, at timestamp", event_time="at", watermark="0 seconds")
    counted = read.partition_by("d").window(tumbling("1 hour")).agg(c="count(*)", emit="on_close")
    counted.write("out")
    run = site.deployed(job, containers=2, max_rows_per_batch=50)
    assert [(lane.stage, lane.seat) for lane in run.lanes] == [("0", "0"), ("0", "1"), ("1", "0"), ("1", "1")]
    coordinator = started(run, until_caught_up=True)
    first, second = (threading.Thread(target=serve, args=(run, coordinator, seat)) for seat in ("0", "1"))
    first.start()
    until(lambda: caught_up_lanes(coordinator, "0") == ["0"])
    assert site.all_records("out") == []
    second.start()
    first.join(60)
    second.join(60)
    assert coordinator.status("j").state == "stopped"
    found = Counter()
    for record in site.all_records("out"):
        value = json.loads(record["value"])
        found[record["key"], value["window_start"]] += value["c"]
        assert value["c"] == found[record["key"], value["window_start"]], "a window came twice"
    wanted = Counter((row["d"].encode(), row["at"][:14] + "00:00.000000Z") for row in hours)
    last = max(start for _, start in wanted)
    assert {key: c // 4 for key, c in found.items()} == {key: c for key, c in wanted.items() if key[1] != last}


def caught_up_lanes(coordinator: Coordinator, seat: str) -> list[str]:
    """The stages of the lanes of a seat that have ended."""
    lanes = [one for one in coordinator.status("j").lanes if one.lane.seat == seat]
    return [one.lane.stage for one in lanes if one.report is not None and one.report.phase == "ended"]


# Lanes that fail, and go on


@contextmanager
def running(site: Site, job: Job, **settings: Any) -> Iterator[Coordinator]:
    """A new deployment in a thread, until the end of ``with``."""
    run = site.deployed(job, **settings)
    coordinator = started(run, until_caught_up=False)
    thread = threading.Thread(target=serve, args=(run, coordinator))
    thread.start()
    try:
        yield coordinator
    finally:
        with contextlib.suppress(ConflictError):  # it has failed
            coordinator.stop(job.name)
        thread.join(60)
        assert not thread.is_alive()


def again(coordinator: Coordinator) -> list[str]:
    return [event.why for event in coordinator.events("j") if "is tried again" in event.what]


@pytest.mark.long
def test_a_lane_that_fails_is_tried_again_and_loses_nothing(site: Site, tmp_path: Path) -> None:
    site.log.create("in", 1)
    site.put("in", 0, [{"n": n} for n in range(10)])
    count = tmp_path / "count"
    count.touch()
    job = Job("j")

    def flaky(row: dict[str, Any]) -> dict[str, Any]:
        """Fails twice: the tests' Spark tries a task once."""
        if row["n"] == 5:
            with count.open("a") as file:
                file.write("x")
            if count.stat().st_size <= 2:
                raise OSError("the service is away")
        return row

    job.read("in", schema="n int").map(flaky).write("out")
    with running(site, job) as coordinator:
        until(lambda: len(site.all_records("out")) >= 10)
        assert [json.loads(r["value"])["n"] for r in site.all_records("out")] == list(range(10))
        tried = again(coordinator)
        assert len(tried) == 2
        assert all("OSError: the service is away" in why for why in tried)
        report = coordinator.status("j").lanes[0].report
        assert report is not None
        assert (report.phase, report.attempt.number, coordinator.status("j").state) == ("running", 3, "running")


def test_a_lane_that_fails_too_often_fails_alone(site: Site) -> None:
    site.log.create("in", 1)
    site.put("in", 0, [{"n": n} for n in range(10)])
    job = Job("j")
    rows = job.read("in", schema="n int")
    rows.map(lambda row: {"n": 1 // (row["n"] - 7)}).write("mapped")
    rows.partition_by("n", via="spark").agg(c="count(*)").write("counted")

    with running(site, job, attempts=2, on_error="fail") as coordinator:
        until(lambda: any(one.lane.error for one in coordinator.status("j").lanes))
        site.put("in", 0, [{"n": 77}])
        until(lambda: any(r["key"] == (77).to_bytes(4, "big") for r in site.all_records("counted")))
        status = coordinator.status("j")
        assert status.state == "running"
        (failed,) = [one.lane for one in status.lanes if one.lane.error]
        assert failed.group == "outputs-embedded"
        assert "ZeroDivisionError" in (failed.error or "")
        assert "on offset 7 of partition 0 of embedded/in" in (failed.error or "")
        assert len(again(coordinator)) == 1
    assert coordinator.status("j").state == "failed"


@pytest.mark.long
def test_a_lane_that_stands_still_is_begun_again(site: Site, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    site.log.create("in", 1)
    site.put("in", 0, [{"n": n} for n in range(10)])
    hung = tmp_path / "hung"
    job = Job("j")

    def hangs(row: dict[str, Any]) -> dict[str, Any]:
        if row["n"] == 5 and not hung.exists():
            hung.touch()
            time.sleep(3600)
        return row

    job.read("in", schema="n int").map(hangs).write("out")
    with running(site, job, stall_after="5 seconds") as coordinator:
        until(lambda: len(site.all_records("out")) >= 10)
        (why,) = again(coordinator)
        assert "stands still" in why
        assert "at offset 0 for" in why
        shown = capfd.readouterr()
        for thread in ("stream execution thread for 0-", "Executor task launch worker", '"lane 0-'):
            assert thread in shown.out
        assert [json.loads(r["value"])["n"] for r in site.all_records("out")] == list(range(10))
