"""Jobs whose inputs in the embedded log don't keep all records."""

from __future__ import annotations

import pytest

from anabranch import Job, crash_points, tumbling
from anabranch.config.streams import StreamSettings
from anabranch.config.systems import EmbeddedSettings
from anabranch.coordinator.streams import start_offsets
from anabranch.model.ssp import SSP
from anabranch.systems.retention import Retention
from anabranch.systems.systems import Systems
from tests.integration.dead_letters import letters
from tests.integration.harness import Deployed, Site


class Crash(Exception):
    """The process dies."""


def filtering(site: Site) -> Deployed:
    site.log.create("in", 1)
    job = Job("j")
    job.read("in", schema="n int").where("n >= 0").write("out")
    return site.deployed(job)


def put(site: Site, *numbers: int) -> None:
    """A record to an entry, so that each can be deleted by itself."""
    for number in numbers:
        site.put("in", 0, [{"n": number}])


def advance(site: Site, job: str, offset: int) -> None:
    """What the job's coordinator does once the job has read so far."""
    readers = site.log.readers("in")
    assert readers.advance(job, {0: offset}, readers.all()[job].revision)


def skipping(site: Site, deployed: Deployed) -> None:
    deployed.settings = deployed.settings.model_copy(
        update={"streams": {"in": StreamSettings(on_data_loss="earliest")}}
    )


def written(site: Site) -> list[int]:
    return [value["n"] for value in site.values("out")]


def test_records_that_are_gone_before_they_were_read_fail_the_lane_or_are_skipped(site: Site) -> None:
    deployed = filtering(site)
    put(site, 1, 2)
    deployed.ran()
    put(site, 3, 4, 5, 6)
    site.log.purge("in", {0: 4})
    told = deployed.failure()
    assert "embedded/in/0: the offsets 2 to 3 are gone" in told
    assert "the stream's retention is shorter than the lane's lag was" in told
    assert '[streams.in] on_data_loss = "earliest"' in told
    assert written(site) == [1, 2]

    skipping(site, deployed)
    deployed.ran()
    assert written(site) == [1, 2, 5, 6]


@pytest.mark.long
def test_what_was_not_read_is_kept_whatever_the_retention_is(site: Site) -> None:
    """From before the lane's first batch on."""
    deployed = filtering(site)
    put(site, 1, 2)
    expired = []

    def expire(step: str, lane: str, batch: int) -> None:
        if step == crash_points.PLANNED:
            expired.append(site.log.expire("in"))

    site.log.retain("in", Retention(ms=0))
    with crash_points.watched(expire):
        deployed.ran()
    assert expired == [0]
    advance(site, "j", 2)
    put(site, 3, 4, 5)
    assert site.log.expire("in") == 0, "the writers have deleted what they may"
    assert site.log.starts("in")[0].offset == 2
    deployed.ran()
    assert written(site) == [1, 2, 3, 4, 5]
    assert site.log.readers("in").all()["j"].positions == {0: 2}


@pytest.mark.long
def test_what_was_read_may_be_deleted_and_a_new_lane_begins_with_what_there_is(site: Site) -> None:
    deployed = filtering(site)
    put(site, 1, 2, 3)
    deployed.ran()
    site.log.retain("in", Retention(ms=0))
    assert site.log.expire("in") == 0, "nobody has said yet that the job won't read them again"
    advance(site, "j", 3)
    put(site, 4)
    assert site.log.starts("in")[0].offset == 3, "who writes deletes"
    deployed.ran()
    assert written(site) == [1, 2, 3, 4]

    job = Job("another")
    job.read("in", schema="n int").where("n >= 0").write("all")
    ssp, systems = SSP.parse("embedded/in/0"), Systems(deployed.settings, "j")
    another = site.deployed(job)
    another.starting = {ssp: site.system.starts("in")[0]}
    another.ran()
    assert [value["n"] for value in site.values("all")] == [4]
    assert start_offsets.offsets("earliest", "j", [ssp], systems) == {str(ssp): 3}


def test_a_planned_batch_that_lost_its_first_records_is_run_again_with_the_others(site: Site) -> None:
    deployed = filtering(site)
    put(site, 1)
    deployed.ran()
    put(site, 2, 3, 4)

    def crash(step: str, lane: str, batch: int) -> None:
        if step == crash_points.PLANNED:
            raise Crash

    with crash_points.watched(crash):
        assert "Crash" in deployed.failure()
    site.log.purge("in", {0: 3})
    assert "embedded/in/0: the offsets 1 to 2 are gone" in deployed.failure()
    skipping(site, deployed)
    deployed.ran()
    assert written(site) == [1, 4]


def test_what_cannot_be_processed_is_put_aside_though_records_before_it_are_gone(site: Site) -> None:
    site.log.create("in", 1)
    job = Job("j")
    job.read("in", key="k string", schema="n int").agg(c="count(*)").write("out")
    deployed = site.deployed(job, on_error="dead-letter", on_null_key="dead-letter")
    site.put("in", 0, [{"n": 1}], [b"k"])
    deployed.ran()
    for value, key in (({"n": 2}, b"k"), ({"n": 3}, b"k"), (b"{bad", b"k"), ({"n": 4}, None)):
        site.put("in", 0, [value], [key])
    site.log.purge("in", {0: 2})
    skipping(site, deployed)
    deployed.ran()
    assert sorted(int(ours["offset"]) for _, _, ours in letters(site)) == [3, 4]
    assert [value["c"] for value in site.values("out")] == [1, 2]


@pytest.mark.long
def test_a_lane_that_runs_and_is_overtaken_says_so(site: Site) -> None:
    """It isn't looked at by its container again before it plans its next batch."""
    deployed = filtering(site)
    put(site, 1)
    deployed.ran()
    put(site, 2, 3, 4)

    def overtake(step: str, lane: str, batch: int) -> None:
        if step == crash_points.PLANNED:
            site.log.purge("in", {0: 3})

    with crash_points.watched(overtake):
        told = deployed.failure()
    assert "in, partition 0: the offsets 1 to 2 are gone, deleted by the stream's retention" in told
    assert written(site) == [1]


@pytest.mark.long
def test_event_time_goes_on_over_a_purged_intermediate_stream(site: Site) -> None:
    """Of the control records that were deleted, the last of each lane counts."""
    site.log.create("in", 1)
    job = Job("j")
    read = job.read("in", schema="n int, k string, at timestamp", event_time="at", watermark="1 minute")
    read.partition_by("k").window(tumbling("10 minutes")).agg(n="count(*)", emit="on_close").write("out")
    deployed = site.deployed(job)
    (between,) = {ssp.stream for lane in deployed.lanes for ssp in lane.ssps} - {"in"}
    for hour in range(3):
        put_at(site, hour, "a")
        deployed.ran()
        site.system.purge(between, site.system.ends(between))
    assert site.log.starts(between)[0].offset == 3
    put_at(site, 3, "b")
    deployed.ran()
    found = sorted((value["k"], value["window_start"], value["n"]) for value in site.values("out"))
    assert found == [("a", f"2013-01-01T{hour:02}:00:00.000000Z", 1) for hour in range(3)]


@pytest.mark.long
def test_a_lane_begins_again_though_its_last_batch_is_deleted(site: Site) -> None:
    """It reads the event times of that batch once more, if they are there."""
    site.log.create("in", 1)
    job = Job("j")
    read = job.read("in", key="k string", schema="n int, at timestamp", event_time="at", watermark="1 minute")
    read.window(tumbling("10 minutes")).agg(n="count(*)", emit="on_close").write("out")
    deployed = site.deployed(job)
    for hour in range(3):
        site.put("in", 0, [{"n": 1, "at": f"2013-01-01T{hour:02}:05:00Z"}], [b"a"])
        deployed.ran()
        site.log.purge("in", {0: hour + 1})
    assert site.log.starts("in")[0].offset == 2
    site.log.retain("in", Retention(ms=0))
    advance(site, "j", 3)
    site.put("in", 0, [{"n": 1, "at": "2013-01-01T03:05:00Z"}], [b"b"])
    assert site.log.starts("in")[0].offset == 3
    deployed.ran()
    deployed.ran()
    windows = [f"2013-01-01T{hour:02}:00:00.000000Z" for hour in range(3)]
    assert [(value["k"], value["window_start"], value["n"]) for value in site.values("out")] == [
        ("a", window, 1) for window in windows
    ]


def put_at(site: Site, hour: int, key: str) -> None:
    site.put("in", 0, [{"n": 1, "k": key, "at": f"2013-01-01T{hour:02}:05:00Z"}])


def test_which_settings_streams_of_the_log_have(site: Site) -> None:
    assert EmbeddedSettings().stream_settings == ("on_data_loss",)
