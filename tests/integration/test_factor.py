"""A job at a factor above 1: it writes what it writes at factor 1, and its functions work on buckets at once."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from anabranch import Job, tumbling
from anabranch.errors import ConfigError
from anabranch.model.hashing import bucket
from anabranch.testing import KILL, Message, run

pytestmark = pytest.mark.usefixtures("spark")

FACTOR = 16
KEYS = [f"k{n}" for n in range(40)]
ROWS = [Message({"n": n}, key=KEYS[n * 7 % 40] if n % 11 else None, partition=n % 2) for n in range(400)]


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

    def added(rows: pa.RecordBatch) -> pa.RecordBatch:
        return rows.set_column(0, "n", pc.add(rows.column("n"), 1).cast(pa.int32()))

    job = Job("kinds")
    read = job.read("in", schema="n int")
    mapped = read.map(tripled, name="tripled")
    mapped.flat_map(several, schema="n int, copy int", name="several").write("several")
    mapped.filter(even, name="even").map_arrow(added, name="added").write("added", key="CAST(n AS string)")
    return job


def records(result: Any, stream: str) -> list[Any]:
    return [(r.partition, r.offset, r.key, r.value) for r in result.records(stream)]


def test_it_writes_what_it_writes_at_factor_1() -> None:
    one, many = (run(all_kinds(), {"in": ROWS}, factor=factor, on_error="dead-letter") for factor in (1, FACTOR))
    for stream in ("several", "added", "in-dead-letters"):
        assert records(many, stream) == records(one, stream)
        assert records(one, stream)
    assert len(many.records("in-dead-letters")) == 8


def test_functions_work_on_the_buckets_of_a_partition_at_once() -> None:
    """Each call of a round waits for one of every bucket: at factor 1 the first would wait for ever."""
    mine = {bucket(key.encode(), 0, 4): key for key in KEYS}
    assert len(mine) == 4
    barrier = _Barrier(4)

    def waiting(message: dict[str, Any]) -> dict[str, Any]:
        barrier.wait()
        return message

    job = Job("waiting")
    job.read("in", schema="n int").map(waiting, name="waiting").write("out")
    rows = [Message({"n": n}, key=key) for n in range(3) for key in mine.values()]
    result = run(job, {"in": rows}, partitions=1, factor=4)
    assert [row["n"] for row in result["out"]] == [0] * 4 + [1] * 4 + [2] * 4


class _Barrier:
    """One for all threads of a worker."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __reduce__(self) -> tuple[Any, ...]:
        return _Barrier, (self._count,)

    def wait(self) -> None:
        held = threading.__dict__.setdefault("_anabranch_test_barrier", threading.Barrier(self._count))
        held.wait(30)


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


def test_a_broadcast_input_is_refused() -> None:
    job = Job("broadcast")
    job.read("in", schema="n int").merge(job.read("rules", schema="n int", broadcast=True)).write("out")
    with pytest.raises(ConfigError, match="factor = 4 with a broadcast input can be planned"):
        run(job, {"in": [], "rules": []}, factor=4)
