"""The life of a lane: it resumes without repeating, is fenced, and says in one message why it failed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from anabranch import Job
from anabranch.api.stream import Stream
from anabranch.container.checkpoint.folder import Folder
from anabranch.errors import GraphError
from anabranch.systems.embedded import fence
from tests.integration.harness import Site, copying

HERE = Path(__file__).name


def line_of(text: str) -> int:
    """The number of the only line of this file that ends in the comment ``# text``."""
    (number,) = [n for n, line in enumerate(Path(__file__).read_text().split("\n"), 1) if line.endswith(f"# {text}")]
    return number


def numbers(site: Site) -> list[int]:
    return [value["n"] for value in site.values("out")]


def test_a_resumed_lane_repeats_nothing_and_goes_on_in_its_folder(site: Site) -> None:
    run = copying(site)
    run.ran()
    assert numbers(site) == [0, 1, 2, 3, 4]
    before = site.log.ends("out")
    run.ran()
    assert run.rows_read() == 0
    assert site.log.ends("out") == before
    site.put("in", 0, [{"n": 5}], [b"k"])
    (report,) = run.ran().values()
    assert (run.epoch - 1, report.attempt.folder_epoch, report.progress.rows) == (3, 1, 1)
    assert numbers(site) == [0, 1, 2, 3, 4, 5]


def test_a_fenced_lane_stops_and_writes_nothing(site: Site) -> None:
    run = copying(site)
    (lane,) = run.lanes
    fence(site.log, "out", "j", lane.id, epoch=5)
    error = run.failure()
    assert f"lane {lane.id} of j, epoch 1, must not write to out, partition 0: epoch 5 has taken over" in error
    assert "nothing was written" in error
    assert site.all_records("out") == []


def test_a_lane_whose_folder_is_gone_fails(site: Site) -> None:
    run = copying(site)
    run.ran()
    (lane,) = run.lanes
    shutil.rmtree(f"{site.lane_folders.root}/j/{lane.id}")
    assert f"the folder of lane {lane.id} is gone" in run.failure()
    assert numbers(site) == [0, 1, 2, 3, 4]


def test_a_lane_that_fails_by_no_fault_of_its_query_stops_it(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    run = copying(site)
    readable = Folder.committed

    def unreadable(folder: Folder) -> int:
        if site.spark.streams.active:
            raise OSError("the disk is gone")
        return readable(folder)

    monkeypatch.setattr(Folder, "committed", unreadable)
    assert run.failure().startswith("OSError: the disk is gone at test_lanes.py:")
    assert not site.spark.streams.active


def test_a_new_lane_whose_outputs_know_it_fails(site: Site) -> None:
    run = copying(site)
    run.ran()
    run.lanes = [msgspec.structs.replace(lane, folder_epoch=0) for lane in run.lanes]
    assert f"lane {run.lanes[0].id} is new, but its outputs hold batch 0 of it" in run.failure()
    assert numbers(site) == [0, 1, 2, 3, 4]


def test_a_lane_whose_folder_is_older_than_its_outputs_fails(site: Site) -> None:
    run = copying(site)
    run.ran()
    (lane,) = run.lanes
    folder = Path(site.lane_folders.root, "j", lane.id, "1")
    kept = site.root / "backup"
    shutil.copytree(folder, kept)
    site.put("in", 0, [{"n": 5}], [b"k"])
    run.ran()
    shutil.rmtree(folder)
    shutil.copytree(kept, folder)
    assert f"the outputs of lane {lane.id} hold its batch 1, but its folder" in run.failure()
    assert numbers(site) == [0, 1, 2, 3, 4, 5]


@pytest.mark.long
def test_a_damaged_segment_stops_the_lane_before_it_until_it_is_restored(site: Site) -> None:
    site.log.create("in", 1)
    for n in range(0, 15, 5):
        site.put("in", 0, [{"n": n + m} for m in range(5)], [b"k"] * 5)
    job = Job("j")
    job.read("in", key="k string", schema="n int").write("out")
    run = site.deployed(job, max_rows_per_batch=5)
    piece = site.log.slices("in", 0, 5, 10)[0]
    segment = Path(piece.path)
    whole = segment.read_bytes()

    segment.write_bytes(whole[: len(whole) // 2])
    cut = f"{segment}, which holds the offsets 5 to 9, was cut short"
    assert cut in run.failure()
    assert numbers(site) == [0, 1, 2, 3, 4]
    assert run.folder(run.lanes[0]).positions() == {"in": {0: 5}}

    segment.unlink()
    error = run.failure()
    assert f"{segment}, which holds the offsets 5 to 9, is missing" in error
    assert "restore the file from a backup" in error
    assert numbers(site) == [0, 1, 2, 3, 4]

    segment.write_bytes(whole)
    run.ran()
    assert numbers(site) == list(range(15))


def test_a_stream_that_was_made_again_fails_the_lane(site: Site) -> None:
    run = copying(site)
    run.ran()
    shutil.rmtree(site.root / "log/in")
    site.log.create("in", 1)
    site.put("in", 0, [{"n": 9}], [b"k"])
    assert f"stream embedded/in isn't the one that lane {run.lanes[0].id} has read so far" in run.failure()


def test_a_stream_that_lost_its_newest_records_fails_the_lane(site: Site) -> None:
    run = copying(site)
    run.ran()
    kept = site.root / "backup"
    shutil.copytree(site.root / "log/in", kept)
    site.put("in", 0, [{"n": 5}], [b"k"])
    run.ran()
    shutil.rmtree(site.root / "log/in")
    shutil.copytree(kept, site.root / "log/in")
    assert f"embedded/in/0 ends at offset 5, but lane {run.lanes[0].id} has already read up to 6" in run.failure()


def broken(message: dict[str, Any]) -> dict[str, Any]:
    return helper(message)  # the caller


def helper(message: dict[str, Any]) -> dict[str, Any]:
    if message["n"] == 3:
        raise ValueError("three is too many")  # the culprit
    return message


async def broken_async(message: dict[str, Any]) -> dict[str, Any]:
    return helper(message)


def no_batch(batch: pa.RecordBatch) -> Any:
    return batch.num_rows


def no_driver(df: DataFrame, lane: str, batch: int, epoch: int) -> None:
    df.write.jdbc("jdbc:nothing://here", "rows")


def broken_udf(df: DataFrame, lane: str, batch: int, epoch: int) -> None:
    df.select(F.udf(lambda n: 1 / (n - n), "int")("n")).collect()


def broken_report(df: DataFrame, lane: str, batch: int, epoch: int) -> None:
    raise ValueError(f"no report of {df.count()} rows")


FAILING: list[tuple[Callable[[Stream], Any], list[str]]] = [
    (
        lambda s: s.map(broken, name="m").write("out"),
        [
            "map 'm' (test_lanes.py:",
            "raised ValueError: three is too many at test_lanes.py:{the caller} in broken",
            "test_lanes.py:{the culprit} in helper, on offset 3 of partition 0 of embedded/in",
            "fix the function",
        ],
    ),
    (lambda s: s.map(broken_async).write("out"), ["raised ValueError: three", "{the culprit} in helper"]),
    (lambda s: s.filter(lambda m: 1 / 0, name="f").write("out"), ["filter 'f'", "ZeroDivisionError", "offset 0 of"]),
    (lambda s: s.map(lambda m: [m]).write("out"), ["map 'map'", "not a dict of the result's columns"]),
    (lambda s: s.map(lambda m: {"new": 1}).write("out"), ["unknown column 'new'", "schema="]),
    (
        lambda s: s.map(lambda m: {"n": "x"}).write("out"),
        ["map 'map'", "'n' is int, but got 'x' (str)", "offset 0 of"],
    ),
    (lambda s: s.flat_map(lambda m: m["n"]).write("out"), ["flat_map 'flat-map'", "it returned 0, not several rows"]),
    (
        lambda s: s.map_arrow(no_batch).write("out"),
        ["map_arrow 'map-arrow'", "returned 5, not a pyarrow.RecordBatch", "offsets 0 to 4"],
    ),
    (
        lambda s: s.map_arrow(lambda b: b.select(["n"])).write("out"),
        ["its result lacks the column 'k'; declare the result with schema="],
    ),
    (
        lambda s: s.foreach_batch(broken_report),
        ["foreach_batch 'foreach-batch'", "no report of 5 rows at test_lanes.py:", "broken_report, on batch 0"],
    ),
    (
        lambda s: s.foreach_batch(no_driver),
        ["raised SQLException: No suitable driver at test_lanes.py:", "in no_driver"],
    ),
    (
        lambda s: s.foreach_batch(broken_udf),
        ["raised ZeroDivisionError: division by zero at test_lanes.py:", "in broken_udf", "in <lambda>, on batch 0"],
    ),
    (
        lambda s: s.select("1 / (n - n) as x").write("out"),
        ["select 'select' (test_lanes.py:", "[DIVIDE_BY_ZERO]", "on offsets 0 to 4 of embedded/in/0", "try_divide"],
    ),
    (
        lambda s: s.where("cast(concat('x', n) as int) > 0").agg(c="count(*)").write("out"),
        ["where 'where' (test_lanes.py:", "[CAST_INVALID_INPUT]", "on offsets 0 to 4 of embedded/in/0", "try_cast"],
    ),
    (
        lambda s: s.transform(lambda df: df.withColumn("x", F.lit(1) / (df.n - df.n))).write("out"),
        ["transform 'transform' (test_lanes.py:", "[DIVIDE_BY_ZERO]", f" at {__file__}:", "on offsets 0 to 4 of"],
    ),
]


@pytest.mark.parametrize(("build", "told"), FAILING)
@pytest.mark.suite(cases=2)
def test_a_function_that_fails_is_told_by_operator_line_and_offsets(
    site: Site, build: Callable[[Stream], Any], told: list[str]
) -> None:
    site.log.create("in", 1)
    site.put("in", 0, [{"n": n} for n in range(5)], [b"k"] * 5)
    job = Job("j")
    build(job.read("in", key="k string", schema="n int"))
    run = site.deployed(job)
    error = run.failure()
    for part in told:
        for place in ("the caller", "the culprit"):
            part = part.replace(f"{{{place}}}", str(line_of(place)))  # noqa: PLW2901
        assert part in error
    assert "Traceback" not in error
    assert "\tat " not in error
    assert len(error.split("\n")) <= 3, error
    assert run.folder(run.lanes[0]).committed() == -1
    assert "out" not in site.log.streams() or site.all_records("out") == []


@pytest.mark.parametrize(
    ("value", "said"), [(b"{", "the value isn't JSON: "), (b'{"n": "x"}', "the column 'n' is no int: \"x\"")]
)
def test_a_value_that_is_not_what_was_declared_fails_the_lane(site: Site, value: bytes, said: str) -> None:
    site.log.create("in", 1)
    site.put("in", 0, [{"n": 1}, value])
    job = Job("j")
    job.read("in", schema="n int").write("out")
    run = site.deployed(job)
    error = run.failure()
    assert error.startswith(f"read 'in' ({HERE}:"), error
    assert f"the record of embedded/in/0 at offset 1 can't be read: {said}" in error
    assert "\tat " not in error
    assert site.all_records("out") == []


def aggregated(df: DataFrame) -> DataFrame:
    return df.groupBy("_anabranch", "n").count()


UNRESOLVED: list[tuple[Callable[[Stream], Any], str]] = [
    (lambda s: s.where("m > 1"), r"where 'where' \(test_lanes.py:\d+\): \[UNRESOLVED_COLUMN.*`m`"),
    (lambda s: s.where("n >"), r"where 'where' \(test_lanes.py:\d+\): \[PARSE_SYNTAX_ERROR\]"),
    (lambda s: s.where("n + 1"), r"where 'where' .*\[DATATYPE_MISMATCH"),
    (lambda s: s.select("n", "nope(n)"), r"select 'select' .*\[UNRESOLVED_ROUTINE\]"),
    (lambda s: s.select("count(*)"), r"select 'select' .*\["),
    (lambda s: s.with_columns(x="y"), r"with_columns 'with-columns' .*\[UNRESOLVED_COLUMN"),
    (lambda s: s.agg(x="n"), r"agg 'agg' .*\["),
    (lambda s: s.agg(by="dest", x="count(*)"), r"agg 'agg' .*\[UNRESOLVED_COLUMN.*`dest`"),
    (lambda s: s.partition_by("dest"), r"partition_by 'by-dest' .*\[UNRESOLVED_COLUMN.*`dest`"),
    (lambda s: s.partition_by("dest", via="spark"), r"partition_by 'by-dest' .*\[UNRESOLVED_COLUMN.*`dest`"),
    (lambda s: s.map(str, schema="n in"), r"map 'map' .*\["),
    (lambda s: s.merge(s.select("k")), r"merge 'merge' .*\["),
    (lambda s: s.transform(lambda df: df.select("n")), r"transform 'transform' .* drops the column _anabranch"),
    (lambda s: s.transform(aggregated), r"transform 'transform' .* adds a stateful step \(Aggregate\)"),
    (lambda s: s.transform(lambda df: df.distinct()), r"transform 'transform' .* adds a stateful step"),
    (lambda s: s.transform(lambda df: df.orderBy("n")), r"transform 'transform' .* adds a stateful step \(Sort\)"),
    (lambda s: s.transform(lambda df: df.limit(3)), r"transform 'transform' .* adds a stateful step"),
    (lambda s: s.transform(lambda df: 7), r"transform 'transform' .* returned int"),
    (lambda s: s.transform(lambda df: df.nope), r"transform 'transform' .*nope"),
    (lambda s: s.transform(lambda df: 1 / 0), r"transform 'transform' .* raised ZeroDivisionError"),
    (lambda s: s.select("row_number() over (order by n) as r"), r"select 'select' .* adds a stateful step \(Window\)"),
]


@pytest.mark.parametrize(("build", "told"), UNRESOLVED)
def test_what_spark_would_refuse_is_refused_before_anything_runs(
    site: Site, build: Callable[[Stream], Any], told: str
) -> None:
    site.log.create("in", 1)
    job = Job("j")
    build(job.read("in", key="k string", schema="n int")).write("out")
    with pytest.raises(GraphError, match=told) as caught:
        site.deployed(job)
    assert caught.value.cure
    assert "\n" not in caught.value.what
    assert HERE in caught.value.what


READS: list[tuple[dict[str, Any], str, str]] = [
    ({}, "json", r"read 'in' \(test_lanes.py:\d+\) reads JSON without a schema"),
    ({"schema": "n int"}, "string", r"read 'in' .* declares a schema, but the stream's format is \"string\""),
    ({"schema": "n int, k string", "key": "k string"}, "json", r"read 'in' .* declares the column 'k' in key="),
    ({"schema": "n in"}, "json", r"read 'in' .*\["),
    ({"schema": "n int", "key": "k strin"}, "json", r"read 'in' .*\["),
]


@pytest.mark.parametrize(("args", "format_", "told"), READS)
def test_a_read_that_doesn_t_fit_its_stream(site: Site, args: dict[str, Any], format_: str, told: str) -> None:
    site.log.create("in", 1)
    job = Job("j")
    job.read("in", **args).write("out", key="1")
    with pytest.raises(GraphError, match=told):
        site.deployed(job, site.settings({"in": format_}))


def test_a_string_stream_takes_one_column_named_value(site: Site) -> None:
    site.log.create("in", 1)
    job = Job("j")
    job.read("in", schema="n int, m int").write("out")
    with pytest.raises(GraphError, match=r'write \'out\' .* writes the columns n, m to a stream of format "string"'):
        site.deployed(job, site.settings({"out": "string"}))


def test_the_key_of_an_output_is_an_expression_or_the_stage_key(site: Site) -> None:
    site.log.create("in", 1)
    site.put("in", 0, [{"n": 7}], [b"k"])
    job = Job("j")
    stream = job.read("in", key="k string", schema="n int")
    stream.write("same")
    stream.select("n").write("still")
    stream.write("number", key="n")
    stream.write("none", key="nullif(n, 7)")
    stream.map_arrow(lambda b: b.set_column(1, "k", pa.array(["changed"]))).select("n").write("changed")
    site.deployed(job).ran()
    keys = {name: [r["key"] for r in site.all_records(name)] for name in ("same", "still", "number", "none", "changed")}
    assert keys == {
        "same": [b"k"],
        "still": [b"k"],
        "number": [b"\x00\x00\x00\x07"],
        "none": [None],
        "changed": [b"changed"],
    }
    assert json.loads(site.all_records("changed")[0]["value"]) == {"n": 7}
