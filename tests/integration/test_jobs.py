"""Whole jobs over several lanes: state, merges, broadcast, keys, and how often the source is read."""

from __future__ import annotations

import json
import struct
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from anabranch import Job
from anabranch.model.hashing import partition_for
from anabranch.spark.query.query import LaneQuery
from tests.integration.harness import AT, Site
from tests.support import spark_java


def numbered(count: int, start: int = 0) -> list[dict[str, Any]]:
    return [{"n": n, "d": f"d{n % 3}"} for n in range(start, start + count)]


def latest(records: list[dict[str, Any]]) -> dict[bytes, Any]:
    """The last value of each key."""
    return {record["key"]: json.loads(record["value"]) for record in records}


def test_running_counts_are_exact_over_several_batches_and_runs(site: Site) -> None:
    site.log.create("in", 2)
    keys = [f"k{n % 5}".encode() for n in range(40)]
    site.put("in", 0, numbered(40), keys)
    site.put("in", 1, numbered(10), [b"k0"] * 10)
    job = Job("j")
    job.read("in", key="k string", schema="n int, d string").agg(c="count(*)", s="sum(n)").write("out")
    run = site.deployed(job, max_rows_per_batch=11)
    (report,) = run.ran().values()
    assert report.progress.batch >= 4
    site.put("in", 0, numbered(5, 100), keys[:5])
    run.ran()
    assert run.rows_read() == 5
    first: Counter[bytes] = Counter(keys + keys[:5])
    found = [(r["key"], json.loads(r["value"])) for r in site.all_records("out")]
    # A key that is in both partitions has a state in each of their tasks.
    assert {v["c"] for k, v in found if k == b"k0"} >= {first[b"k0"], 10}
    for key, count in first.items():
        mine = [v["c"] for k, v in found if k == key and v["k"] == key.decode()]
        assert max(mine) == max(count, 10 * (key == b"k0"))
    assert latest(site.all_records("out"))[b"k3"] == {"k": "k3", "c": 9, "s": sum(range(3, 40, 5)) + 103}


@pytest.mark.long
def test_spark_compiles_nothing_for_a_batch_like_a_former_one(
    site: Site, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is compiled is quick after a while only: no value that each batch has another one of is in its code."""

    def publish(query: LaneQuery, *args: Any) -> None:
        as_it_was(query, *args)
        compiled.append(count())

    count = spark_java.compilations(spark)
    as_it_was, compiled = LaneQuery.publish, list[int]()
    monkeypatch.setattr(LaneQuery, "publish", publish)
    site.log.create("in", 1)
    site.put("in", 0, numbered(60), [b"a"] * 60)
    job = Job("j")
    job.read("in", key="k string", schema="n int").agg(c="count(*)").write("out")
    site.deployed(job, max_rows_per_batch=10).ran()
    assert len(compiled) >= 6
    assert len(set(compiled[2:])) == 1, compiled


def test_agg_by_further_columns_keeps_the_stage_key_and_counts_below_it(site: Site) -> None:
    site.log.create("in", 2)
    site.put("in", 0, numbered(12), [b"a", b"b"] * 6)
    job = Job("j")
    job.read("in", key="k string", schema="n int, d string").agg(by="d", c="count(*)").write("out")
    site.deployed(job).ran()
    records = site.all_records("out")
    assert sorted((r["key"], json.loads(r["value"])["d"], json.loads(r["value"])["c"]) for r in records) == [
        (k, f"d{d}", 2) for k in (b"a", b"b") for d in range(3)
    ]
    for record in records:
        assert record in site.records("out", partition_for(record["key"], 2))


@pytest.mark.parametrize("via", ["stream", pytest.param("spark", marks=pytest.mark.long)])
def test_partition_by_brings_a_key_of_all_partitions_together(site: Site, via: Any) -> None:
    site.log.create("in", 3)
    for partition in range(3):
        site.put("in", partition, numbered(9))
    job = Job("j")
    job.read("in", schema="n int, d string").partition_by("d", via=via).agg(c="count(*)").write("out")
    run = site.deployed(job, max_rows_per_batch=10)
    run.ran()
    assert len(run.lanes) == (2 if via == "stream" else 1)
    assert latest(site.all_records("out")) == {f"d{d}".encode(): {"d": f"d{d}", "c": 9} for d in range(3)}


KEYS: dict[str, tuple[list[str], Callable[[dict[str, Any]], bytes]]] = {
    "string": (["s"], lambda r: r["s"].encode()),
    "int": (["i"], lambda r: struct.pack(">i", r["i"])),
    "long": (["l"], lambda r: struct.pack(">q", r["l"])),
    "binary": (["b"], lambda r: r["b"].encode()),
    "double": (["f"], lambda r: json.dumps([r["f"]]).encode()),
    "several": (["s", "i"], lambda r: json.dumps([r["s"], r["i"]], separators=(",", ":")).encode()),
}


def test_partition_by_writes_the_key_bytes_and_places_them_as_kafka_does(site: Site) -> None:
    site.log.create("in", 1)
    rows = [{"s": f"s{n}", "i": n - 2, "l": n << 33, "b": f"b{n}", "f": n + 0.5} for n in range(6)]
    site.put("in", 0, rows)
    job = Job("j")
    stream = job.read("in", schema="s string, i int, l long, b string, f double")
    stream = stream.with_columns(b="cast(b as binary)")
    for name, (columns, _) in KEYS.items():
        stream.partition_by(*columns, partitions=3, name=name).select("s").write(f"out-{name}")
    site.deployed(job).ran()
    for name, (_, key) in KEYS.items():
        for partition in range(3):
            expected = [key(row) for row in rows if partition_for(key(row), 3) == partition]
            assert [r["key"] for r in site.records(f"j-{name}-1", partition)] == expected
            assert [r["key"] for r in site.records(f"out-{name}", partition)] == expected
        assert {r["timestamp"] for r in site.all_records(f"out-{name}")} == {AT}


def test_values_pass_an_intermediate_stream_unchanged(site: Site) -> None:
    site.log.create("in", 1)
    site.put("in", 0, [{"n": 1}])
    made = {
        "t": "timestamp'2026-01-02 03:04:05.678901'",
        "m": "cast('12345678901234567890.0123456789' as decimal(38, 10))",
        "f": "double('NaN')",
        "e": "named_struct('x', array(1, null), 'y', named_struct('z', x'00ff'))",
        "p": "map('a', timestamp_ntz'2026-01-02 03:04:05.678901')",
    }
    job = Job("j")
    stream = job.read("in", schema="n int").with_columns(**made)
    check = " and ".join(f"{name} = {expression}" for name, expression in made.items() if name != "p")
    check += f" and p['a'] = {made['p']}['a'] and typeof(f) = 'double' and typeof(m) = 'decimal(38,10)'"
    stream.partition_by("n").select(f"{check} as same").write("out")
    site.deployed(job).ran()
    assert site.values("out") == [{"same": True}]


def test_an_intermediate_column_of_a_type_that_json_can_t_hold_is_refused_before_anything_runs(site: Site) -> None:
    site.log.create("in", 1)
    job = Job("j")
    job.read("in", schema="n int").with_columns(m="map(n, n)").partition_by("n", name="keyed").write("out")
    with pytest.raises(Exception, match=r"partition_by 'keyed' \(test_jobs.py:\d+\)"):
        site.deployed(job)


@pytest.mark.long
def test_null_keys_are_dropped_where_state_is_kept_and_pass_elsewhere(site: Site) -> None:
    site.log.create("in", 2)
    site.put("in", 0, [{"d": "a"}, {"d": None}, {"d": "a"}], [b"k", None, b"k"])
    job = Job("j")
    stream = job.read("in", key="k string", schema="d string")
    stream.write("copy")
    stream.agg(c="count(*)").write("counts")
    stream.partition_by("d").write("by-d")
    stream.partition_by("d", via="spark", name="inside").agg(c="count(*)", name="second").write("counts-by-d")
    site.deployed(job, on_null_key="drop").ran()
    assert sorted(r["key"] or b"" for r in site.all_records("copy")) == [b"", b"k", b"k"]
    assert latest(site.all_records("counts")) == {b"k": {"k": "k", "c": 2}}
    assert [r["key"] for r in site.all_records("by-d")] == [b"a", b"a"]
    assert latest(site.all_records("counts-by-d")) == {b"a": {"d": "a", "c": 2}}


@pytest.mark.parametrize("how", ["agg", "stream", "spark"])
@pytest.mark.suite(cases=1)
def test_a_null_key_fails_the_lane_that_keeps_state(site: Site, how: str) -> None:
    site.log.create("in", 1)
    site.put("in", 0, [{"d": "a"}, {"d": None}], [b"k", None])
    job = Job("j")
    stream = job.read("in", key="k string", schema="d string")
    keyed = stream if how == "agg" else stream.partition_by("d", via=how, name="by-d")  # type: ignore[arg-type]
    keyed.agg(c="count(*)", name="counts").write("out")
    error = site.deployed(job).failure()
    operator = {"agg": "agg 'counts'", "stream": "partition_by 'by-d'", "spark": "partition_by 'by-d'"}[how]
    assert f"the key is null in a row that reached {operator} (test_jobs.py:" in error
    assert "of partition 0 at offset 1 of embedded/in\n" in error
    assert 'set [job] on_null_key = "dead-letter" or "drop"' in error
    assert site.all_records("out") == []


@pytest.mark.long
def test_rows_that_were_filtered_before_don_t_count_as_null_keys(site: Site) -> None:
    site.log.create("in", 1)
    site.put("in", 0, [{"d": "a"}, {"d": None}], [b"k", None])
    job = Job("j")
    stream = job.read("in", key="k string", schema="d string").where("d is not null")
    stream.agg(c="count(*)").write("out")
    stream.partition_by("d", via="spark").agg(c="count(*)", name="second").write("second")
    site.deployed(job).ran()
    assert latest(site.all_records("out")) == {b"k": {"k": "k", "c": 1}}
    assert latest(site.all_records("second")) == {b"a": {"d": "a", "c": 1}}


@pytest.mark.long
def test_merge_takes_the_rows_of_both_in_the_order_of_each(site: Site) -> None:
    site.log.create("a", 1)
    site.log.create("b", 1)
    site.put("a", 0, numbered(20), [b"x"] * 20)
    site.put("b", 0, [{"d": f"b{n}", "n": n} for n in range(20)], [b"x"] * 20)
    job = Job("j")
    a = job.read("a", key="k string", schema="n int, d string")
    b = job.read("b", key="k string", schema="d string, n int")
    a.merge(b).write("out")
    a.merge(b).agg(c="count(*)").write("counts")
    run = site.deployed(job, max_rows_per_batch=15)
    run.ran()
    values = site.values("out")
    assert [v["n"] for v in values if not v["d"].startswith("b")] == list(range(20))
    assert [v["n"] for v in values if v["d"].startswith("b")] == list(range(20))
    assert latest(site.all_records("counts")) == {b"x": {"k": "x", "c": 40}}
    assert run.rows_read() == 2 * 40


@pytest.mark.long
def test_two_sources_that_part_before_they_come_together(site: Site) -> None:
    site.log.create("a", 1)
    site.log.create("b", 2)
    site.put("a", 0, numbered(6))
    site.put("b", 1, numbered(4, 100))
    job = Job("j")
    a = job.read("a", schema="n int, d string")
    b = job.read("b", schema="n int, d string")
    a.where("n < 2").write("few")
    a.where("n >= 2").merge(b.map(lambda m: {**m, "d": "b"})).write("both")
    b.write("copy")
    run = site.deployed(job)
    run.ran()
    assert [v["n"] for v in site.values("few")] == [0, 1]
    assert sorted((v["n"], v["d"]) for v in site.values("both")) == [
        *((n, f"d{n % 3}") for n in range(2, 6)),
        *((n, "b") for n in range(100, 104)),
    ]
    assert sorted(v["n"] for v in site.values("copy")) == [100, 101, 102, 103]
    assert len(run.lanes) == 1
    assert run.rows_read() == 10


@pytest.mark.long
def test_a_broadcast_row_is_in_every_task_once(site: Site) -> None:
    site.log.create("in", 3)
    site.log.create("rates", 2)
    for partition in range(3):
        site.put("in", partition, [{"n": partition}], [b"k"])
    site.put("rates", 1, [{"n": 100}], [b"k"])
    job = Job("j")
    rates = job.read("rates", key="k string", schema="n int", broadcast=True)
    merged = job.read("in", key="k string", schema="n int").merge(rates)
    merged.write("out")
    merged.agg(c="count(*)", s="sum(n)").write("sums")
    rates.where("n > 1").foreach_batch(lambda df, lane, batch, epoch: seen.extend(df.collect()), name="alone")
    seen: list[Any] = []
    run = site.deployed(job)
    run.ran()
    assert sorted(v["n"] for v in site.values("out")) == [0, 1, 2, 100, 100, 100]
    assert sorted((v["c"], v["s"]) for v in site.values("sums")) == [(2, 100), (2, 101), (2, 102)]
    assert [row["n"] for row in seen] == [100, 100, 100]


@pytest.mark.long
def test_one_read_for_functions_and_sql_and_one_for_state(site: Site) -> None:
    site.log.create("in", 2)
    for partition in range(2):
        site.put("in", partition, numbered(50), [f"k{partition}".encode()] * 50)
    job = Job("j")
    stream = job.read("in", key="k string", schema="n int, d string")
    stream.map_arrow(lambda batch: batch.filter(pa.compute.less(batch["n"], 3))).write("arrow")
    stream.where("n > 40").write("late")
    stream.where("n < 40").select("n * 2 as m").write("doubled")
    stream.agg(c="count(*)", s="sum(n)").write("sums")
    run = site.deployed(job, max_rows_per_batch=30)
    run.ran()
    assert sorted(v["n"] for v in site.values("arrow")) == [0, 0, 1, 1, 2, 2]
    assert sorted(v["n"] for v in site.values("late")) == sorted([*range(41, 50)] * 2)
    assert sorted(v["m"] for v in site.values("doubled")) == sorted([2 * n for n in range(40)] * 2)
    assert latest(site.all_records("sums")) == {
        f"k{p}".encode(): {"k": f"k{p}", "c": 50, "s": sum(range(50))} for p in range(2)
    }
    assert set(run.plan.reads_per_ssp.values()) == {2}
    assert run.rows_read() == 2 * 100


@pytest.mark.long
def test_foreach_batch_gets_the_visible_columns_the_lane_the_batch_and_the_epoch(site: Site) -> None:
    site.log.create("in", 1)
    site.put("in", 0, numbered(5), [b"k"] * 5)
    calls: list[tuple[list[str], list[int], str, int, int]] = []

    def note(df: DataFrame, lane: str, batch: int, epoch: int) -> None:
        calls.append((df.columns, [row["n"] for row in df.collect()], lane, batch, epoch))

    job = Job("j")
    stream = job.read("in", key="k string", schema="n int, d string")
    stream.where("n > 0").foreach_batch(note)
    stream.agg(c="count(*)", n="max(n)").foreach_batch(note, name="counts")
    run = site.deployed(job, max_rows_per_batch=3)
    run.ran()
    plain, counting = (lane.id for lane in run.lanes)
    assert [call for call in calls if call[2] == plain] == [
        (["n", "d", "k"], [1, 2], plain, 0, 1),
        (["n", "d", "k"], [3, 4], plain, 1, 1),
    ]
    assert [call for call in calls if call[2] == counting] == [
        (["k", "c", "n"], [2], counting, 0, 1),
        (["k", "c", "n"], [4], counting, 1, 1),
    ]


@pytest.mark.long
def test_formats_string_and_raw(site: Site) -> None:
    site.log.create("text", 1)
    site.log.create("bytes", 1)
    site.put("text", 0, ["ä".encode(), None, b""])
    site.put("bytes", 0, [b"\xff\x00", None])
    job = Job("j")
    job.read("text").select("upper(value) as value").write("upper")
    job.read("bytes").select("reverse(hex(value)) as value").write("hexed")
    job.read("json", schema="n string").select("unhex(n) as value").write("unhexed")
    site.log.create("json", 1)
    site.put("json", 0, [{"n": "00ff"}])
    formats = {"text": "string", "upper": "string", "bytes": "raw", "hexed": "string", "unhexed": "raw"}
    site.deployed(job, site.settings(formats)).ran()
    assert [r["value"] for r in site.all_records("upper")] == ["Ä".encode(), None, b""]
    assert [r["value"] for r in site.all_records("hexed")] == [b"00FF", None]
    assert [r["value"] for r in site.all_records("unhexed")] == [b"\x00\xff"]
