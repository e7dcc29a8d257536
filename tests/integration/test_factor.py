"""A job at a factor above 1: it writes what it writes at factor 1, and its functions work on buckets at once."""

from __future__ import annotations

import asyncio
import os
import random
import threading
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from anabranch import Job, tumbling
from anabranch.model.hashing import bucket
from anabranch.spark.operators import routing
from anabranch.spark.values import meta_column
from anabranch.testing import KILL, Message, run

pytestmark = pytest.mark.usefixtures("spark")

FACTOR = 16
KEYS = [f"k{n}" for n in range(40)]
UNORDERED = ["left"]
"""The streams whose keys are others than those of the input."""
ROWS = [Message({"n": n}, key=KEYS[n * 7 % 40] if n % 11 else None, partition=n * 7 % 40 % 3) for n in range(400)]


def all_kinds() -> Job:
    def tripled(message: dict[str, Any]) -> dict[str, Any]:
        if message["n"] % 50 == 3:
            raise ValueError("fifty")
        return {"n": message["n"] * 3}

    def several(message: dict[str, Any]) -> list[dict[str, Any]]:
        return [{"n": message["n"], "copy": copy} for copy in range(message["n"] % 4)]

    async def even(message: dict[str, Any]) -> bool:
        await asyncio.sleep(0)
        return message["n"] % 2 == 0

    def twice(rows: pa.RecordBatch) -> pa.RecordBatch:
        return rows.take(pa.array([place for place in range(rows.num_rows) for _ in (1, 2)]))

    def no_sevens(message: dict[str, Any]) -> dict[str, Any]:
        if message["n"] % 7 == 0:
            raise ValueError("seven")
        return message

    def added(rows: pa.RecordBatch) -> pa.RecordBatch:
        return rows.set_column(0, "n", pc.add(rows.column("n"), 1).cast(pa.int32()))

    job = Job("kinds")
    read = job.read("in", schema="n int")
    mapped = read.map(tripled, name="tripled")
    mapped.flat_map(several, schema="n int, copy int", name="several").write("several")
    mapped.filter(even, name="even").map_arrow(added, name="added").write("added", key="CAST(n AS string)")
    read.map_arrow(twice, name="twice").map(no_sevens, name="no-sevens").write("left", key="CAST(n % 9 AS string)")
    return job


def by_key(result: Any, stream: str) -> dict[Any, list[Any]]:
    """The records of each key, in order; those without a key have none."""
    found: dict[Any, list[Any]] = {}
    for each in result.records(stream):
        found.setdefault((each.partition, each.key), []).append(each.value)
    keyed = stream not in UNORDERED
    return {key: each if keyed and key[1] else sorted(map(repr, each)) for key, each in found.items()}


@pytest.mark.long
def test_it_writes_what_it_writes_at_factor_1() -> None:
    """Of three partitions on two cores, one is in two Spark tasks."""
    one, many = (
        run(all_kinds(), {"in": ROWS}, factor=factor, partitions=3, on_error="dead-letter") for factor in (1, FACTOR)
    )
    for stream in ("several", "added", "left", "in-dead-letters"):
        assert by_key(many, stream) == by_key(one, stream)
        assert by_key(one, stream)
    assert len(many.records("in-dead-letters")) == 8 + 2 * 58


def test_rows_go_to_the_spark_task_of_their_bucket(spark: SparkSession) -> None:
    """Spark finds the bucket that Python finds: of rows without a key, of empty and of long keys; and takes that which
    a broadcast row has."""
    drawn = random.Random(5)
    keys = [None, None, b"", b"\xff\xfe", drawn.randbytes(10**6), *(drawn.randbytes(n % 40) for n in range(500))]
    given = [(2 + 3 * (n % 2), key, n, None if n % 3 else n % 8) for n, key in enumerate(keys)]
    lane = routing.over([(task, number) for task in (2, 5) for number in range(8)], 8, 3)
    assert lane is not None
    frame = spark.createDataFrame(
        [(row,) for row in given], f"{meta_column.NAME} struct<task int, key binary, offset bigint, bucket int>"
    )
    routed = lane.routed(frame).select(F.spark_partition_id(), meta_column.field("offset")).collect()
    found = {offset: number for number, offset in routed}
    assert found == {
        offset: lane.numbers[task, bucket(key, offset, 8) if given_bucket is None else given_bucket]
        for task, key, offset, given_bucket in given
    }
    assert set(found.values()) == {0, 1, 2}


@pytest.mark.parametrize(("setting", "at_once"), [({}, 4), ({"threads": 2}, 2)])
def test_functions_work_on_the_buckets_of_a_partition_at_once(setting: dict[str, Any], at_once: int) -> None:
    """In two processes, for there are two cores. Each has four buckets, and calls that are made at once wait for each
    other."""
    mine = {bucket(key.encode(), 0, 8): key for key in KEYS}
    assert len(mine) == 8
    barrier = _Barrier(at_once)

    def waiting(message: dict[str, Any]) -> dict[str, Any]:
        barrier.wait()
        return {**message, "process": os.getpid(), "thread": threading.current_thread().name}

    job = Job("waiting")
    job.read("in", schema="n int").map(waiting, schema="n int, process int, thread string").write("out")
    given = [Message({"n": n}, key=key) for n in range(3) for key in mine.values()]
    result = run(job, {"in": given}, partitions=1, factor=8, **setting)
    processes: dict[int, list[int]] = {}
    for row in result["out"]:
        processes.setdefault(row["process"], []).append(row["n"])
    assert list(processes.values()) == [[0] * 4 + [1] * 4 + [2] * 4] * 2
    assert len({(row["process"], row["thread"]) for row in result["out"]}) == 2 * at_once


class _Barrier:
    """One for all threads of a worker."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __reduce__(self) -> tuple[Any, ...]:
        return _Barrier, (self._count,)

    def wait(self) -> None:
        held = threading.__dict__.setdefault(f"_anabranch_test_barrier_{self._count}", threading.Barrier(self._count))
        held.wait(30)


@pytest.mark.long
def test_stages_state_and_a_kill() -> None:
    job = Job("stateful")
    at = "2026-01-01T0{}:00:00Z"
    rows: list[Any] = [
        Message({"n": n, "at": at.format(n // 50), "g": f"g{n % 5}"}, key=KEYS[n % 40]) for n in range(200)
    ]
    read = job.read("in", key="k string", schema="n int, at timestamp, g string", event_time="at", watermark="1 minute")
    mapped = read.map(lambda m: m, name="same")
    mapped.partition_by("g").window(tumbling("1 hour")).agg(c="count(*)").write("hourly")
    read.agg(c="count(*)").write("running")
    result = run(job, {"in": [*rows[:90], KILL, *rows[90:]]}, factor=FACTOR)
    hours = [(row["g"], row["c"]) for row in result["hourly"]]
    assert sorted(hours) == sorted((f"g{n}", 10) for n in range(5) for _ in range(2))
    assert result.latest("running", "k") == {key: {"k": key, "c": 5} for key in KEYS}
