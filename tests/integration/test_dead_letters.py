"""What can't be processed is put aside once, with its bytes, where it came from and why."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import Any

import pytest

from anabranch import Job, tumbling
from anabranch.spark.query import publishing
from anabranch.spark.query.query import LaneQuery
from tests.integration.dead_letters import counted, letters
from tests.integration.harness import Deployed, Site

SCHEMA = "n int, d string, at timestamp"
FAULTY: list[tuple[bytes | None, str]] = [
    (b"{bad", "the value isn't JSON: "),
    (b'{"n": "x"}', "the column 'n' is no int: \"x\""),
    (b"[1]", "the value is JSON, but not an object: [1]"),
    (b"3", "the value is JSON, but not an object: 3"),
    (b"", "the value is empty"),
    (None, "the value is null"),
    (b"\xff\xfe", "the value isn't UTF-8: byte 0xff at byte 0"),
]


def mixed(site: Site, partitions: int = 2) -> None:
    """Good records around faulty ones, in each partition."""
    site.log.create("in", partitions)
    for partition in range(partitions):
        values = [{"n": 1}, *[value for value, _ in FAULTY], {"n": 2}]
        site.put("in", partition, values, [b"k%d" % n for n in range(len(values))])


@pytest.mark.parametrize(
    "shape",
    [
        *(pytest.param(shape, marks=pytest.mark.long) for shape in ("one output", "apart")),
        "branches",
        "function",
        "agg",
    ],
)
@pytest.mark.suite(cases=1)
def test_faulty_records_are_put_aside_with_their_bytes_origin_and_error(site: Site, shape: str) -> None:
    mixed(site)
    job = Job("j")
    stream = job.read("in", key="k string", schema=SCHEMA)
    if shape == "agg":
        stream.agg(c="count(*)").write("out")
    elif shape == "function":
        stream.map(lambda message: message).write("out")
    elif shape == "apart":
        site.log.create("other", 1)
        stream.write("copy")
        stream.merge(job.read("other", key="k string", schema=SCHEMA)).write("out")
    else:
        stream.write("out")
        if shape == "branches":
            stream.where("n > 1").write("more")
            stream.agg(c="count(*)").write("counts")
    run = site.deployed(job, on_error="dead-letter")
    run.ran()
    assert len(site.all_records("out")) == 4
    found = letters(site)
    assert len(found) == 2 * len(FAULTY)
    by_place = {(int(ours["partition"]), int(ours["offset"])): (at, record, ours) for at, record, ours in found}
    for partition in range(2):
        for offset, (value, error) in enumerate(FAULTY, 1):
            at, record, ours = by_place[partition, offset]
            assert (at, record["key"], record["value"]) == (partition, b"k%d" % offset, value)
            assert ours["error"].startswith(error)
            assert ours["stream"] == "in"
            assert ours["operator"].startswith("read 'in' (test_dead_letters.py:")
            assert ours["job"] == "j"
    assert counted(run) == (len(found), 0)
    run.ran()
    assert len(letters(site)) == len(found)
    assert counted(run) == (len(found), 0)


def test_headers_and_order_are_kept_and_far_apart_records_found(site: Site) -> None:
    site.log.create("in", 1)
    values: list[Any] = [{"n": n} for n in range(4000)]
    for at in (7, 8, 1500, 3999):
        values[at] = b"bad %d" % at
    site.put("in", 0, values)
    job = Job("j")
    job.read("in", schema="n int").write("out")
    run = site.deployed(job, on_error="dead-letter", max_rows_per_batch=1600)
    run.ran()
    assert [record["value"] for _, record, _ in letters(site)] == [b"bad 7", b"bad 8", b"bad 1500", b"bad 3999"]
    assert len(site.all_records("out")) == 3996


def test_a_null_key_at_a_second_partition_by_is_put_aside(site: Site) -> None:
    """Also a row of state, which comes of no single record."""
    site.log.create("in", 1)
    site.put("in", 0, [{"n": n, "d": d} for n, d in enumerate("aab")])
    job = Job("j")
    by_d = job.read("in", schema=SCHEMA).partition_by("d", name="by-d")
    by_d.with_columns(e="nullif(d, 'a')").partition_by("e", name="by-e").write("rows")
    counts = by_d.agg(c="count(*)", name="counts")
    counts.with_columns(f="nullif(d, 'b')").partition_by("f", name="by-f").write("counts")
    run = site.deployed(job, on_null_key="dead-letter")
    run.ran()
    found = sorted(
        (ours["operator"].split(" (")[0], ours.get("offset")) for _, _, ours in letters(site, "j-by-d-1-dead-letters")
    )
    assert found == [("partition_by 'by-e'", "0"), ("partition_by 'by-e'", "1"), ("partition_by 'by-f'", None)]
    assert [v["d"] for v in site.values("rows")] == ["b"]
    assert {v["d"] for v in site.values("counts")} == {"a"}


def test_null_keys_are_put_aside_where_rows_are_kept_by_key(site: Site) -> None:
    site.log.create("in", 2)
    site.put("in", 0, [{"n": 1, "d": "a"}, {"n": 2, "d": None}, {"n": 3, "d": "b"}], [b"k", b"k", None])
    job = Job("j")
    stream = job.read("in", key="k string", schema=SCHEMA)
    stream.where("n > 0").agg(c="count(*)", name="counts").write("counts")
    stream.partition_by("d", name="by-d").agg(c="count(*)", name="second").write("by-d")
    stream.partition_by("d", via="spark", name="inside").agg(c="count(*)", name="third").write("inside")
    run = site.deployed(job)
    run = site.deployed(job, on_null_key="dead-letter")
    run.ran()
    found = sorted((ours["operator"].split(" (")[0], ours["offset"], ours["error"]) for _, _, ours in letters(site))
    assert found == [
        ("agg 'counts'", "2", "the key is null, and the operator keeps its rows by key"),
        ("partition_by 'by-d'", "1", "the key is null"),
        ("partition_by 'inside'", "1", "the key is null"),
    ]
    assert {v["d"] for v in site.values("by-d")} == {"a", "b"} == {v["d"] for v in site.values("inside")}
    assert [v["c"] for v in site.values("counts")] == [2]
    assert counted(run) == (3, 0)


@pytest.mark.long
def test_rows_without_event_time_are_put_aside(site: Site) -> None:
    site.log.create("in", 1)
    site.put("in", 0, [{"n": 1, "at": "2013-01-01T00:00:00Z"}, {"n": 2}], [b"k", b"k"])
    job = Job("j")
    stream = job.read("in", key="k string", schema=SCHEMA, event_time="at", watermark="1 hour")
    stream.window(tumbling("1 hour")).agg(c="count(*)", emit="on_update").write("out")
    run = site.deployed(job, on_error="dead-letter")
    run.ran()
    ((_, record, ours),) = letters(site)
    assert (record["value"], ours["error"]) == (b'{"n": 2}', "the event time 'at' is null")
    assert [v["c"] for v in site.values("out")] == [1]


def test_a_value_that_cannot_be_read_fails_the_lane_and_not_the_event_time_that_it_lacks(site: Site) -> None:
    site.log.create("in", 1)
    site.put("in", 0, [b'{"n": 1, "at": "no time"}'], [b"k"])
    job = Job("j")
    stream = job.read("in", key="k string", schema=SCHEMA, event_time="at", watermark="1 hour")
    stream.window(tumbling("1 hour")).agg(c="count(*)", emit="on_update").write("out")
    error = site.deployed(job, on_error="fail").failure()
    assert "in/0 at offset 0 can't be read: the column 'at' is no timestamp" in error


@pytest.mark.long
def test_a_wrong_clock_neither_stops_a_lane_nor_moves_its_watermark(site: Site) -> None:
    site.log.create("in", 1)
    now = dt.datetime.now(dt.UTC)
    tomorrow, later = (f"{now + dt.timedelta(days=days):%Y-%m-%dT%H:%M:%SZ}" for days in (0.9, 3))
    times = ["2013-01-01T00:00:00Z", "9999-12-31T23:59:59Z", later, "1899-12-31T23:59:59Z", "2013-01-01T00:30:00Z"]
    site.put("in", 0, [{"n": n, "at": at} for n, at in enumerate(times)], [b"k"] * len(times))
    job = Job("j")
    stream = job.read("in", key="k string", schema=SCHEMA, event_time="at", watermark="1 hour")
    stream.window(tumbling("1 hour")).agg(c="count(*)", emit="on_update").write("out")
    run = site.deployed(job, on_error="dead-letter")
    run.ran()
    errors = [ours["error"] for _, _, ours in letters(site)]
    assert [error[: len("the event time 'at' is 9999")] for error in errors] == [
        f"the event time 'at' is {year}" for year in ("9999", later[:4], "1899")
    ]
    assert "before 1900-01-01, or more than 24 hours after today" in errors[0]
    site.put("in", 0, [{"n": 9, "at": "2013-01-01T00:40:00Z"}], [b"k"])
    run.ran()  # the watermark of the former run is recomputed: the window is open yet
    assert site.values("out")[-1]["c"] == 3
    site.put("in", 0, [{"n": 9, "at": tomorrow}], [b"k"])
    run.ran()
    assert len(letters(site)) == 3


def test_a_batch_that_runs_again_on_a_later_day_judges_times_by_its_own_day(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    build, planned_at = Deployed.query, int(dt.datetime(2020, 1, 1, tzinfo=dt.UTC).timestamp() * 1000)

    def planned_long_ago(self: Deployed, *given: Any) -> LaneQuery:
        query = build(self, *given)
        return replace(query, planned=lambda number: replace(query.planned(number), at=planned_at))

    monkeypatch.setattr(Deployed, "query", planned_long_ago)
    for stream in ("in", "other"):
        site.log.create(stream, 1)
    times = ["2019-12-31T00:00:00Z", "2024-01-01T00:00:00Z"]
    site.put("in", 0, [{"n": n, "at": at} for n, at in enumerate(times)], [b"k"] * 2)
    job = Job("j")
    stream = job.read("in", key="k string", schema=SCHEMA, event_time="at", watermark="1 hour")
    stream.write("copy")  # the path branches before the streams come together
    other = job.read("other", key="k string", schema=SCHEMA, event_time="at", watermark="1 hour")
    stream.merge(other).write("out")
    site.deployed(job, on_error="dead-letter").ran()
    assert [row["n"] for row in site.values("out")] == [row["n"] for row in site.values("copy")] == [0]
    ((_, _, ours),) = letters(site)
    assert ours["error"].startswith("the event time 'at' is 2024-01-01")


def test_times_and_dates_are_read_as_declared(site: Site) -> None:
    site.log.create("in", 1)
    site.put(
        "in", 0, [{"at": 1700000000123, "day": 19000, "x": "NaN", "t": {"a": [1]}}, {"at": "2013-01-01T00:00:00Z"}]
    )
    job = Job("j")
    ways = {"at": "epoch-millis", "day": "epoch-days", "x": "nan-is-null", "t": "json"}
    job.read("in", schema="at timestamp, day date, x double, t string", read_as=ways).write("out")
    site.deployed(job, on_error="dead-letter").ran()
    assert site.values("out") == [{"at": "2023-11-14T22:13:20.123000Z", "day": "2022-01-08", "t": '{"a": [1]}'}]
    ((_, _, ours),) = letters(site)
    assert ours["error"] == (
        "the column 'at' is no timestamp: \"2013-01-01T00:00:00Z\" (it is declared as a number, epoch-millis)"
    )


def test_dropped_records_are_counted_and_nothing_is_written(site: Site) -> None:
    mixed(site, 1)
    job = Job("j")
    job.read("in", key="k string", schema=SCHEMA).map(lambda m: {**m, "n": 1 // (m["n"] - 1)}).write("out")
    run = site.deployed(job, on_error="drop")
    run.ran()
    assert letters(site) == []
    assert counted(run) == (0, len(FAULTY) + 1)
    assert len(site.all_records("out")) == 1


@pytest.mark.parametrize("published", [pytest.param(False, marks=pytest.mark.long), True])
def test_dead_letters_are_there_once_after_a_lane_has_died_in_the_batch(
    site: Site, monkeypatch: pytest.MonkeyPatch, published: bool
) -> None:
    mixed(site)
    job = Job("j")
    stream = job.read("in", key="k string", schema=SCHEMA)
    stream.map(lambda m: {**m, "n": 1 // (m["n"] - 1)}).write("out")
    run = site.deployed(job, on_error="dead-letter", max_rows_per_batch=8)
    finish, died = publishing.Publishing.finish, 0

    def dying(self: publishing.Publishing, number: int, *rest: Any) -> None:
        nonlocal died
        if number == 1 and not died:
            died += 1
            if published:
                finish(self, number, *rest)
            raise RuntimeError("killed by the test")
        finish(self, number, *rest)

    monkeypatch.setattr(publishing.Publishing, "finish", dying)
    assert "killed by the test" in run.failure()
    run.ran()
    found = letters(site)
    places = {(ours["partition"], ours["offset"]) for _, _, ours in found}
    assert len(found) == len(places) == 2 * (len(FAULTY) + 1)
    assert counted(run) == (len(found), 0)
    assert len(site.all_records("out")) == 2
