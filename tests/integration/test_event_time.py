"""Windows of event time: the watermark follows the slowest SSP, through stages, restarts and clones."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from anabranch import Job, tumbling
from anabranch.container.checkpoint import copying
from tests.integration.flights import SCHEMA, Flight, Windows, closed, computed, flights, put, written
from tests.integration.harness import Deployed, Site

PARTITIONS = 2
ROWS = 96


def by_destination(emit: Any = "on_close", **read: Any) -> Job:
    job = Job("j")
    flights = job.read("flights", key="tail string", schema=SCHEMA, event_time="at", watermark="10 minutes", **read)
    flights.partition_by("dest").window(tumbling("1 hour")).agg(n="count(*)", emit=emit).write("hourly")
    return job


def check(site: Site, run: Deployed, several: list[Flight]) -> Windows:
    """Every window that ends before the last watermark is there and right; gives those that are still open."""
    (last,) = [run.reports[lane.id] for lane in run.lanes if lane.stage == "1"]
    assert last.event_time.watermark is not None
    expected = computed(several)
    found, due = written(site), closed(expected, last.event_time.watermark)
    assert found == due
    return {window: n for window, n in expected.items() if window not in due}


def lagging(site: Site) -> tuple[list[Flight], list[Flight]]:
    """One partition ahead; the other two days behind."""
    site.log.create("flights", PARTITIONS)
    ahead, behind = flights(1, hours=72), flights(2, hours=72)
    put(site, 0, ahead)
    put(site, 1, behind[: len(behind) // 3])
    return ahead, behind


@pytest.mark.long
def test_a_partition_two_days_behind_loses_nothing(site: Site) -> None:
    ahead, behind = lagging(site)
    held = behind[: len(behind) // 3]
    run = site.deployed(by_destination(), max_rows_per_batch=ROWS)
    run.ran()
    still_open = check(site, run, [*ahead, *held])
    assert sum(still_open.values()) > len(ahead) // 2
    (first,) = [run.reports[lane.id] for lane in run.lanes if lane.stage == "0"]
    assert first.event_time.held_by == "embedded/flights/1"
    assert [report.progress.rows for report in run.reports.values()] == [len(ahead) + len(held)] * 2
    newest = max(datetime.fromisoformat(f["at"]) for f in held)
    assert first.event_time.watermark == int((newest - timedelta(minutes=10)).timestamp() * 1000)

    before, ends = {lane: report.event_time.watermark for lane, report in run.reports.items()}, site.log.ends("hourly")
    run.ran()
    after = {lane: report.event_time.watermark for lane, report in run.reports.items()}
    assert after == before, "it isn't known after a restart"
    assert site.log.ends("hourly") == ends

    put(site, 1, behind[len(behind) // 3 :])
    run.ran()
    still_open = check(site, run, [*ahead, *behind])
    assert 0 < sum(still_open.values()) < 30
    assert sum(report.event_time.late_groups for report in run.reports.values()) == 0


@pytest.mark.long
def test_spark_s_own_watermark_loses_what_lags(site: Site) -> None:
    ahead, behind = lagging(site)
    run = site.deployed(by_destination(), max_rows_per_batch=ROWS, watermark_scope="lane")
    run.ran()
    put(site, 1, behind[len(behind) // 3 :])
    run.ran()
    expected, found = computed([*ahead, *behind]), written(site)
    assert sum(found.values()) < sum(n for window, n in expected.items() if window in found)


@pytest.mark.long
def test_updates_are_emitted_for_open_windows(site: Site) -> None:
    site.log.create("flights", PARTITIONS)
    several = flights(3, hours=6)
    put(site, 0, several[:6])
    run = site.deployed(by_destination("on_update"))
    run.ran()
    put(site, 0, several[6:])
    put(site, 1, several[:5])
    run.ran()
    last = {(v["dest"], v["window_start"][:16]): v["n"] for v in site.values("hourly")}
    assert last == computed([*several, *several[:5]])


@pytest.mark.long
def test_windows_without_a_stage_between_and_on_a_merge_of_streams(site: Site) -> None:
    for stream in ("a", "b"):
        site.log.create(stream, 1)
    job = Job("j")
    both = [
        job.read(s, key="dest string", schema="at timestamp", event_time="at", watermark="10 minutes") for s in "ab"
    ]
    both[0].merge(both[1]).window(tumbling("1 hour")).agg(n="count(*)").write("hourly")
    several = flights(4, hours=30)
    for stream, mine in (("a", several), ("b", several[:30])):
        site.put(stream, 0, [{"at": f["at"]} for f in mine], [f["dest"].encode() for f in mine])
    run = site.deployed(job, max_rows_per_batch=50)
    (report,) = run.ran().values()
    assert report.event_time.watermark is not None
    assert report.event_time.held_by == "embedded/b/0"
    read = {"a": several, "b": several[:30]}
    newest = {name: max(datetime.fromisoformat(f["at"]) for f in its) for name, its in read.items()}
    late = timedelta(minutes=10)
    assert report.event_time.times == {
        f"embedded/{name}/0": int((at - late).timestamp() * 1000) for name, at in newest.items()
    }
    assert written(site) == closed(computed([*several, *several[:30]]), report.event_time.watermark)
    assert len(written(site)) > 15


@pytest.mark.long
def test_a_broadcast_moves_the_watermark_too_and_its_rows_are_in_each_task(site: Site) -> None:
    site.log.create("flights", PARTITIONS)
    site.log.create("all", 1)
    job = Job("j")
    declared = {"schema": "at timestamp", "event_time": "at", "watermark": "10 minutes"}
    flights_, everywhere = (
        job.read("flights", key="dest string", **declared),
        job.read("all", key="dest string", broadcast=True, **declared),
    )
    flights_.merge(everywhere).window(tumbling("1 hour")).agg(n="count(*)").write("hourly")
    several = flights(5, hours=10)
    for partition in range(PARTITIONS):
        site.put("flights", partition, [{"at": f["at"]} for f in several], [f["dest"].encode() for f in several])
    site.put("all", 0, [{"at": f["at"]} for f in several[:20]], [f["dest"].encode() for f in several[:20]])
    run = site.deployed(job)
    (report,) = run.ran().values()
    assert report.event_time.watermark is not None
    assert report.event_time.held_by == "embedded/all/0"
    rows = Counter((v["dest"], v["window_start"][:16], v["n"]) for v in site.values("hourly"))
    due = closed(computed([*several, *several[:20]]), report.event_time.watermark)
    assert rows == Counter({(dest, start, n): PARTITIONS for (dest, start), n in due.items()})


@pytest.mark.long
def test_a_clone_of_the_stateful_lane_goes_on_with_the_same_windows(site: Site) -> None:
    ahead, behind = lagging(site)
    run = site.deployed(by_destination(), max_rows_per_batch=ROWS)
    run.ran()
    (number,) = [n for n, lane in enumerate(run.lanes) if lane.stage == "1"]
    parent = run.lanes[number]
    child = msgspec.structs.replace(parent, id="1-0000cafe", predecessors=(parent.id,), folder_epoch=7)
    copying.clone(run.folder(parent), f"{site.lane_folders.root}/j/{child.id}/7")
    run.lanes[number] = child
    run.epoch = 7
    put(site, 1, behind[len(behind) // 3 :])
    run.ran()
    check(site, run, [*ahead, *behind])
