"""Processes the buckets of a Spark task in a Python worker. Several buckets may be processed at the same time, but the
rows of each bucket are processed in order.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.model import hashing
from anabranch.model.ssp import WHOLE
from anabranch.spark.functions import arrow_batches
from anabranch.spark.values import meta_column

__all__ = ["LOOK_AHEAD", "Bucket", "Crew", "Places", "Work", "Worked", "done", "in_order", "of_rows", "worked"]

LOOK_AHEAD = 64 * 2**20
"""How many bytes of Arrow data a Spark task may keep in memory: rows that it has read, and results that can't be
returned before the results of earlier rows. When this limit is reached, all buckets must wait for the slowest bucket of
the earliest batch.
"""

T = TypeVar("T")
Places = npt.NDArray[np.int64]
Worked = tuple[pa.Table, Places]
"""Result rows, and for each result row the index of the row from which it comes."""

Bucket = tuple[int, int]
"""The number of a task at factor 1, and the number of a bucket."""

Cut = Callable[[pa.RecordBatch, dict[int, int]], None]
"""A function that is called whenever rows of a partition arrive. It is called with these rows, and with the number of
rows in each bucket.
"""

Work = Callable[[pa.RecordBatch], Coroutine[Any, Any, Worked]]
"""An async function that works on some rows. It is suspended only while it waits for something in an event loop."""


@dataclass(frozen=True)
class Crew:
    """How a Spark task processes several buckets at the same time.

    Attributes:
        threads: the maximum number of buckets that are processed at the same time in threads.
        awaits: whether the user's function is async and called in this process. If so, all buckets are processed in one
            event loop, not in several threads.
    """

    factor: int
    threads: int
    awaits: bool


def worked(
    batches: Iterable[pa.RecordBatch],
    work: Work,
    crew: Crew,
    busy: dict[Bucket, float],
    ahead: int = LOOK_AHEAD,
    cut: Cut = lambda _, __: None,
) -> Iterator[pa.RecordBatch]:
    """Yield the results of ``work`` on each batch of rows. The results are in the order of the batches and, within a
    batch, in the order of the rows. If ``work`` raises an exception, this function raises the same exception.

    If the factor is above 1, a bucket can continue with later batches while another bucket still works on an earlier
    batch.

    Args:
        batches: each batch has rows of one task.
        busy: the seconds spent on each bucket (at factor 1, on each task) are added here.
        ahead: if the factor is above 1, how many bytes of rows and results may be kept before this function waits until
            the earliest batch is complete.
        cut: if the factor is above 1, called with each batch when it arrives; see :data:`Cut`.
    """
    if crew.factor > 1:
        yield from _at_once(batches, work, crew, busy, ahead, cut)
    elif crew.awaits:
        with asyncio.Runner() as runner:
            loop = runner.get_loop()
            yield from _one_by_one(batches, lambda rows: done(loop, work(rows)), busy)
    else:
        yield from _one_by_one(batches, lambda rows: _run(work(rows)), busy)


def _one_by_one(
    batches: Iterable[pa.RecordBatch], work: Callable[[pa.RecordBatch], Worked], busy: dict[Bucket, float]
) -> Iterator[pa.RecordBatch]:
    for rows in batches:
        begun, whole = time.perf_counter(), (_task(rows), WHOLE)
        result = work(rows)[0]
        busy[whole] = busy.get(whole, 0.0) + time.perf_counter() - begun
        yield from arrow_batches.cut(result)


def _task(rows: pa.RecordBatch) -> int:
    return int(rows.column(meta_column.NAME)[0]["task"].as_py()) if rows.num_rows else WHOLE


def _at_once(
    batches: Iterable[pa.RecordBatch], work: Work, crew: Crew, busy: dict[Bucket, float], ahead: int, cut: Cut
) -> Iterator[pa.RecordBatch]:
    queue = _Queue(work, busy)
    workers: _Workers = _Loop() if crew.awaits else _Threads(crew.threads)
    try:
        for rows in batches:
            parts = queue.cut(rows, crew.factor)
            cut(rows, {part.bucket[1]: len(part.places) for part, _ in parts})
            for part, its in parts:
                workers.put(part.bucket, partial(queue.do, part, its))
            yield from queue.ended(ahead)
        yield from queue.ended(-1)
    finally:
        workers.close()


@dataclass
class _Part:
    """One bucket's part of a batch: the indexes of its rows, and their results."""

    bucket: Bucket
    places: Places
    result: Worked | None = None


@dataclass
class _Queue:
    """The batches whose results haven't been returned yet, in order."""

    work: Work
    busy: dict[Bucket, float]
    _batches: deque[list[_Part]] = field(default_factory=deque)
    _held: int = 0
    _error: BaseException | None = None
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def cut(self, rows: pa.RecordBatch, factor: int) -> list[tuple[_Part, pa.RecordBatch]]:
        """Add a batch, and return its parts, each with the part's rows."""
        task = _task(rows)
        of_row = of_rows(rows, factor)
        parts = []
        for number in np.unique(of_row):
            places = np.flatnonzero(of_row == number)
            mine = rows if len(places) == rows.num_rows else rows.take(pa.array(places))
            parts.append((_Part((task, int(number)), places), mine))
        self._batches.append([part for part, _ in parts])
        with self._changed:
            self._held += sum(mine.nbytes for _, mine in parts)
        return parts

    async def do(self, part: _Part, rows: pa.RecordBatch) -> None:
        """Do the work of a part, unless the work of another part has failed."""
        if self._error is not None:
            return
        begun = time.perf_counter()
        try:
            result = await self.work(rows)
        except BaseException as error:
            with self._changed:
                self._error = self._error or error
                self._changed.notify()
            return
        with self._changed:
            self.busy[part.bucket] = self.busy.get(part.bucket, 0.0) + time.perf_counter() - begun
            self._held += result[0].nbytes - rows.nbytes
            part.result = result
            self._changed.notify()

    def ended(self, ahead: int) -> Iterator[pa.RecordBatch]:
        """The results of the earliest batches, in order, up to the first batch that isn't complete. While more than
        ``ahead`` bytes are kept, this function waits for that batch instead of ending.
        """
        while self._batches:
            with self._changed:
                first = self._batches[0]
                while self._error is None and any(part.result is None for part in first):
                    if self._held <= ahead:
                        return
                    self._changed.wait()
                if self._error is not None:
                    raise self._error
            self._batches.popleft()
            results = [(part.result[0], part.places[part.result[1]]) for part in first if part.result is not None]
            with self._changed:
                self._held -= sum(rows.nbytes for rows, _ in results)
            yield from in_order(results)


def in_order(parts: Sequence[Worked], most: int = arrow_batches.LARGEST) -> Iterator[pa.RecordBatch]:
    """The result rows of several parts of a batch, in the order of the rows from which they come. The results are
    divided into batches of about ``most`` bytes or less: Arrow can't reorder more than 2 GB of strings or bytes.

    Args:
        parts: each part's results and row indexes. The indexes of a part must be in ascending order, and no index may
            be in two parts.
    """
    parts = [part for part in parts if len(part[1])]
    if len(parts) < 2:
        for rows, _ in parts:
            yield from arrow_batches.cut(rows, most)
        return
    came_of = np.concatenate([places for _, places in parts])
    if sum(rows.nbytes for rows, _ in parts) <= most:
        whole = pa.concat_tables([rows for rows, _ in parts]).combine_chunks()
        yield from whole.take(pa.array(np.argsort(came_of, kind="stable"))).to_batches()
        return
    middle = (came_of.min() + came_of.max() + 1) // 2
    edges = [np.searchsorted(places, middle) for _, places in parts]
    pairs = list(zip(parts, edges, strict=True))
    yield from in_order([(rows.slice(0, edge), places[:edge]) for (rows, places), edge in pairs], most)
    yield from in_order([(rows.slice(edge), places[edge:]) for (rows, places), edge in pairs], most)


def of_rows(rows: pa.RecordBatch, factor: int) -> Places:
    """The bucket of each row, from the hidden column (see :mod:`anabranch.spark.values.meta_column`). If this column
    has no bucket for a row, the bucket is computed from the row's key or, if the key is null, from the row's offset.
    """
    fields = "key", "offset", "bucket"
    keys, offsets, given = (pc.struct_field(rows.column(meta_column.NAME), name).to_pylist() for name in fields)
    found = (
        hashing.bucket(key, offset, factor) if bucket is None else bucket
        for key, offset, bucket in zip(keys, offsets, given, strict=True)
    )
    return np.fromiter(found, np.int64, rows.num_rows)


def _run(work: Coroutine[Any, Any, Any]) -> Any:
    """The result of work that never awaits anything. Raises RuntimeError if the work does await something."""
    try:
        work.send(None)
    except StopIteration as ended:
        return ended.value
    work.close()
    raise RuntimeError("it waits for an event loop, and isn't declared as async")


def done(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    """Run ``work`` in the event loop ``loop`` until it is complete, and return its result.

    If an asyncio task that user code has started raises SystemExit or KeyboardInterrupt, the loop stops. This function
    then runs the loop again, so the exception reaches the code that awaits the task.
    """
    task = loop.create_task(work)
    while not task.done():
        try:
            return loop.run_until_complete(task)
        except (SystemExit, KeyboardInterrupt):
            continue
    return task.result()


_Job = Callable[[], Coroutine[Any, Any, None]]


class _Workers(Protocol):
    def put(self, bucket: Bucket, job: _Job) -> None:
        """Queue a job, to be done after all earlier jobs of the same bucket."""
        ...

    def close(self) -> None:
        """End the threads. Jobs that haven't started are dropped. Running jobs are cancelled if they are in an event
        loop; otherwise, this method waits for them."""
        ...


class _Threads:
    def __init__(self, most: int) -> None:
        self._pool = ThreadPoolExecutor(most, "anabranch-bucket")
        self._waiting: dict[Bucket, deque[_Job]] = {}
        self._lock = threading.Lock()

    def put(self, bucket: Bucket, job: _Job) -> None:
        with self._lock:
            waiting = self._waiting.get(bucket)
            if waiting is not None:
                waiting.append(job)
                return
            self._waiting[bucket] = deque()
        self._pool.submit(self._do, bucket, job)

    def _do(self, bucket: Bucket, job: _Job) -> None:
        _run(job())
        with self._lock:
            waiting = self._waiting[bucket]
            if not waiting:
                del self._waiting[bucket]
                return
            following = waiting.popleft()
            self._pool.submit(self._do, bucket, following)

    def close(self) -> None:
        with self._lock:
            for waiting in self._waiting.values():
                waiting.clear()
        self._pool.shutdown(cancel_futures=True)


class _Loop:
    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._turns: dict[Bucket, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._jobs: set[asyncio.Task[None]] = set()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="anabranch-loop", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._closing:
            with suppress(SystemExit, KeyboardInterrupt):  # see done()
                self._loop.run_forever()

    def put(self, bucket: Bucket, job: _Job) -> None:
        self._loop.call_soon_threadsafe(self._add, bucket, job)

    def _add(self, bucket: Bucket, job: _Job) -> None:
        begun = self._loop.create_task(self._in_turn(self._turns[bucket], job))
        self._jobs.add(begun)
        begun.add_done_callback(self._jobs.discard)

    @staticmethod
    async def _in_turn(turn: asyncio.Lock, job: _Job) -> None:
        async with turn:
            await job()

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._closing = True
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        jobs = list(self._jobs)
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)
        await self._loop.shutdown_asyncgens()
