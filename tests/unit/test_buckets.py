"""The buckets of a partition's rows, each in a thread: what comes of them, and in what order."""

from __future__ import annotations

import threading

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.model.hashing import bucket
from anabranch.spark import buckets, hidden

SCHEMA = pa.schema([("n", pa.int64()), (hidden.NAME, pa.struct([("key", pa.binary()), ("offset", pa.int64())]))])


def batch(keys: list[bytes | None]) -> pa.RecordBatch:
    rows = [{"n": n, hidden.NAME: {"key": key, "offset": 100 + n}} for n, key in enumerate(keys)]
    return pa.RecordBatch.from_pylist(rows, SCHEMA)


def repeated(rows: pa.RecordBatch) -> buckets.Worked:
    """Each row as often as its number says, by threes."""
    places = [place for place, n in enumerate(rows.column("n").to_pylist()) for _ in range(n % 3)]
    return rows.take(pa.array(places, pa.int64())), pa.array(places, pa.int64()).to_numpy()


@settings(deadline=None)
@given(st.lists(st.sampled_from([None, b"", b"a", b"b", b"c", b"\xff"]), max_size=60), st.sampled_from([1, 2, 4, 16]))
def test_what_comes_of_rows_has_their_order(keys: list[bytes | None], factor: int) -> None:
    rows = batch(keys)
    with buckets.threads(factor) as each_bucket:
        found = each_bucket(repeated, rows) if keys else rows
    assert found.column("n").to_pylist() == [n for n in range(len(keys)) for _ in range(n % 3)]
    assert found.schema == SCHEMA


def test_each_bucket_is_worked_on_by_itself_in_order() -> None:
    keys = [b"%d" % (n % 50) for n in range(400)] + [None] * 40
    seen: list[list[int]] = []

    def work(rows: pa.RecordBatch) -> buckets.Worked:
        numbers = rows.column("n").to_pylist()
        seen.append(numbers)
        return rows, pa.array(range(len(numbers)), pa.int64()).to_numpy()

    with buckets.threads(8) as each_bucket:
        each_bucket(work, batch(keys))
    wanted: dict[int, list[int]] = {}
    for n, key in enumerate(keys):
        wanted.setdefault(bucket(key, 100 + n, 8), []).append(n)
    assert sorted(seen) == sorted(wanted.values())


def test_all_buckets_are_worked_on_at_once() -> None:
    """Each waits for the others: one after the other, it would never end."""
    factor = 16
    keys = [b"%d" % n for n in range(200)]
    assert {bucket(key, 0, factor) for key in keys} == set(range(factor))
    together = threading.Barrier(factor)

    def work(rows: pa.RecordBatch) -> buckets.Worked:
        together.wait(60)
        return rows, pa.array(range(rows.num_rows), pa.int64()).to_numpy()

    with buckets.threads(factor) as each_bucket:
        assert pc.sum(each_bucket(work, batch(keys)).column("n")).as_py() == sum(range(200))


def test_what_a_bucket_raises_is_raised() -> None:
    def work(rows: pa.RecordBatch) -> buckets.Worked:
        raise KeyError("no")

    with buckets.threads(4) as each_bucket, pytest.raises(KeyError, match="no"):
        each_bucket(work, batch([b"a", b"b", b"c", b"d", b"e"]))
