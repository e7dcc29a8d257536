"""The buckets of a Spark task, worked on at once: what comes of them, in what order, and how far ahead they may be."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.model.hashing import bucket
from anabranch.spark.functions import buckets
from anabranch.spark.functions.buckets import Crew
from anabranch.spark.values import meta_column

SCHEMA = pa.schema(
    [
        ("n", pa.int64()),
        (
            meta_column.NAME,
            pa.struct([("task", pa.int32()), ("key", pa.binary()), ("offset", pa.int64()), ("bucket", pa.int32())]),
        ),
    ]
)
PATIENCE = 60
THREADS, LOOP = False, True
KEYS = [None, b"", b"a", b"b", b"c", b"\xff"]


def batches(keys: list[bytes | None], size: int, task: int = 0) -> Iterator[pa.RecordBatch]:
    """Rows with the numbers 0, 1, ..., so many a batch."""
    rows = [{"n": n, meta_column.NAME: {"task": task, "key": key, "offset": 100 + n}} for n, key in enumerate(keys)]
    for at in range(0, len(rows), size):
        yield pa.RecordBatch.from_pylist(rows[at : at + size], SCHEMA)


def test_a_row_of_a_broadcast_has_its_bucket() -> None:
    (rows,) = batches([b"a"] * 3, 3)
    hidden_ = [{**each, "bucket": given} for each, given in zip(rows.column(1).to_pylist(), (5, None, 0), strict=True)]
    told = rows.set_column(1, meta_column.NAME, pa.array(hidden_, SCHEMA.field(1).type))
    assert buckets.of_rows(told, 8).tolist() == [5, bucket(b"a", 0, 8), 0]


def numbers(rows: pa.RecordBatch) -> list[int]:
    return list(rows.column("n").to_pylist())


def table(rows: pa.RecordBatch) -> pa.Table:
    return pa.Table.from_batches([rows])


def repeated(rows: pa.RecordBatch) -> buckets.Worked:
    """Each row as often as its number says, by threes."""
    places = [place for place, n in enumerate(numbers(rows)) for _ in range(n % 3)]
    return table(rows.take(pa.array(places, pa.int64()))), pa.array(places, pa.int64()).to_numpy()


def same(rows: pa.RecordBatch) -> buckets.Worked:
    return table(rows), pa.array(range(rows.num_rows), pa.int64()).to_numpy()


def found(given: Iterator[pa.RecordBatch], work: buckets.Work, crew: Crew, **more: int) -> list[int]:
    return [n for rows in buckets.worked(given, work, crew, {}, **more) for n in numbers(rows)]


@given(
    st.lists(st.sampled_from(KEYS), max_size=60),
    st.sampled_from([1, 2, 4, 16]),
    st.integers(1, 20),
    st.sampled_from([1, 3, 64]),
    st.booleans(),
    st.sampled_from([0, 500, buckets.LOOK_AHEAD]),
)
def test_what_comes_of_rows_has_their_order(
    keys: list[bytes | None], factor: int, size: int, threads: int, awaits: bool, ahead: int
) -> None:
    async def work(rows: pa.RecordBatch) -> buckets.Worked:
        if awaits:
            await asyncio.sleep(0)
        return repeated(rows)

    crew = Crew(factor, threads, awaits)
    wanted = [n for n in range(len(keys)) for _ in range(n % 3)]
    assert found(batches(keys, size), work, crew, ahead=ahead) == wanted


@pytest.mark.parametrize("awaits", [THREADS, LOOP])
def test_each_bucket_is_worked_on_by_itself_in_order(awaits: bool) -> None:
    keys = [b"%d" % (n % 50) for n in range(400)] + [None] * 40
    seen: dict[int, list[int]] = {}
    busy: set[int] = set()

    async def work(rows: pa.RecordBatch) -> buckets.Worked:
        mine = {bucket(each["key"], each["offset"], 8) for each in rows.column(meta_column.NAME).to_pylist()}
        (number,) = mine
        assert number not in busy
        busy.add(number)
        seen.setdefault(number, []).extend(numbers(rows))
        if awaits:
            await asyncio.sleep(0.001)
        busy.remove(number)
        return same(rows)

    found(batches(keys, 30), work, Crew(8, 4, awaits))
    wanted: dict[int, list[int]] = {}
    for n, key in enumerate(keys):
        wanted.setdefault(bucket(key, 100 + n, 8), []).append(n)
    assert seen == wanted


@pytest.mark.parametrize("awaits", [THREADS, LOOP])
def test_all_buckets_of_all_tasks_are_worked_on_at_once(awaits: bool) -> None:
    """Each waits for the others: one after the other, it would never end."""
    factor, keys = 8, [b"%d" % n for n in range(200)]
    assert {bucket(key, 0, factor) for key in keys} == set(range(factor))
    together = (asyncio.Barrier if awaits else threading.Barrier)(2 * factor)
    tasks = [rows for task in (0, 1) for rows in batches(list(keys), 200, task)]

    async def work(rows: pa.RecordBatch) -> buckets.Worked:
        if isinstance(together, asyncio.Barrier):
            await asyncio.wait_for(together.wait(), PATIENCE)
        else:
            together.wait(PATIENCE)
        return same(rows)

    assert found(iter(tasks), work, Crew(factor, 64, awaits)) == [*range(200), *range(200)]


def test_no_more_threads_than_were_set() -> None:
    """Four wait for each other, and four times there are four: a fifth would be one too many."""
    names: set[str] = set()
    four = threading.Barrier(4)

    async def work(rows: pa.RecordBatch) -> buckets.Worked:
        names.add(threading.current_thread().name)
        four.wait(PATIENCE)
        return same(rows)

    keys: list[bytes | None] = [b"%d" % n for n in range(200)]
    assert len({bucket(key, 0, 16) for key in keys}) == 16
    found(batches(keys, 200), work, Crew(16, 4, THREADS))
    assert len(names) == 4


@pytest.mark.parametrize("awaits", [THREADS, LOOP])
def test_a_slow_bucket_holds_the_others_up_only_when_enough_waits(awaits: bool) -> None:
    """While one bucket stands still, the others work on later batches: as long as what is held is below the limit."""
    slow, fast = b"a", next(k for k in (b"b", b"c", b"d", b"e") if bucket(k, 0, 2) != bucket(b"a", 0, 2))
    keys: list[bytes | None] = [slow, fast] * 40
    ended = threading.Event()
    taken: list[int] = []

    def taking() -> Iterator[pa.RecordBatch]:
        for number, rows in enumerate(batches(keys, 2)):
            taken.append(number)
            yield rows

    async def work(rows: pa.RecordBatch) -> buckets.Worked:
        key = rows.column(meta_column.NAME)[0]["key"].as_py()
        while key == slow and not ended.is_set():
            if awaits:
                await asyncio.sleep(0.001)
            else:
                ended.wait(0.001)
        if key == fast and numbers(rows)[-1] == 79:
            ended.set()
        return same(rows)

    assert found(taking(), work, Crew(2, 2, awaits)) == list(range(80))

    ended.clear()
    taken.clear()
    limit = next(batches(keys, 2)).nbytes * 5
    given = buckets.worked(taking(), _until(ended, lambda: len(taken), slow), Crew(2, 2, THREADS), {}, ahead=limit)
    assert [n for rows in given for n in numbers(rows)] == list(range(80))


def _until(ended: threading.Event, taken: Callable[[], int], slow: bytes) -> buckets.Work:
    """The slow bucket looks, after a while, how much was taken before its first row had ended."""

    async def work(rows: pa.RecordBatch) -> buckets.Worked:
        if rows.column(meta_column.NAME)[0]["key"].as_py() == slow and not ended.is_set():
            before = -1
            while before != taken():
                before = taken()
                threading.Event().wait(0.2)
            assert 4 <= before <= 12, f"{before} batches were taken"
            ended.set()
        return same(rows)

    return work


@pytest.mark.parametrize("awaits", [THREADS, LOOP])
def test_what_a_bucket_raises_is_raised_at_once(awaits: bool) -> None:
    """Not only when the rows before it have ended; and what hasn't begun isn't begun any more."""
    begun: list[Any] = []
    failed = threading.Event()

    async def work(rows: pa.RecordBatch) -> buckets.Worked:
        begun.append(numbers(rows))
        if numbers(rows)[0] == 3:
            failed.set()
            raise KeyError("no")
        while not failed.is_set():
            await asyncio.sleep(0.001) if awaits else failed.wait(PATIENCE)
        return same(rows)

    keys: list[bytes | None] = [b"a", b"b", b"c", b"d", b"e", b"f"] * 50
    with pytest.raises(KeyError, match="no"):
        found(batches(keys, 3), work, Crew(16, 64, awaits))
    assert len(begun) < 100


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), max_size=30), st.integers(1, 400))
def test_the_results_of_a_batch_are_in_order_however_small_the_batches_are_to_which_they_are_cut(
    rows: list[tuple[int, int]], most: int
) -> None:
    """``rows``: the bucket of each row, and how many results come of it."""
    parts = []
    for number in range(4):
        places = [place for place, (its, count) in enumerate(rows) if its == number for _ in range(count)]
        results = pa.table({"n": pa.array(places, pa.int64()), "t": ["x" * place for place in places]})
        parts.append((results, np.array(places, np.int64)))
    cut = [*buckets.in_order(parts, most)]
    assert [n for each in cut for n in numbers(each)] == sorted(n for _, places in parts for n in places.tolist())
    bits = 4  # bytes that Arrow may add to say which values are null
    assert all(each.nbytes <= most + bits * each.num_rows or each.num_rows == 1 for each in cut)


@pytest.mark.parametrize("factor", [1, 4])
@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_a_task_of_user_code_that_raises_these_does_not_end_the_loop(factor: int, error: type[BaseException]) -> None:
    """Who waits for the task gets to know it, and all others go on."""

    async def raising(n: int) -> None:
        await asyncio.sleep(0.001)
        if n % 3 == 0:
            raise error

    async def work(rows: pa.RecordBatch) -> buckets.Worked:
        kept = []
        for place, n in enumerate(numbers(rows)):
            try:
                await asyncio.gather(raising(n), asyncio.sleep(0.002))
            except error:
                continue
            kept.append(place)
        places = pa.array(kept, pa.int64())
        return table(rows.take(places)), places.to_numpy()

    keys: list[bytes | None] = [b"%d" % n for n in range(60)]
    assert found(batches(keys, 20), work, Crew(factor, 4, awaits=True)) == [n for n in range(60) if n % 3]
