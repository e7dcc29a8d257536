"""Records which messages a lane's functions and processors are working on, for reports to the driver. If a function
works on a message for longer than ``[job] message_timeout``, this module ends the worker, unless the call can be ended
on its own. This is possible for an async function that is awaiting something, and for a function in a separate process.
"""

from __future__ import annotations

import faulthandler
import math
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import partial

import pyarrow as pa

from anabranch.model import hashing
from anabranch.model.ssp import WHOLE
from anabranch.task_progress.counts import Work
from anabranch.task_progress.meters import Message, Meter, Tally

__all__ = ["OVERDUE_EXIT", "at", "number", "on", "on_key"]

LOOK_EVERY = 1.0
OVERDUE_EXIT = 75
"""The exit code of a worker that ends because a function worked on a message for too long."""


_mine: ContextVar[Message | None] = ContextVar("message", default=None)
_limits: dict[Message, float] = {}
_lock = threading.Lock()
_watchers: list[threading.Thread] = []
_armed = [-math.inf]
_STDERR = 2


def on(meter: Meter, origin: pa.Array, factor: int, limit: float = math.inf) -> AbstractContextManager[None]:
    """A context in which a function works on rows of one bucket of a task, while ``meter`` records the function's
    progress. Call :func:`at` before each row.

    Args:
        origin: the hidden column of the rows (see :mod:`anabranch.spark.values.meta_column`).
        factor: the job's factor, from which the bucket is computed.
        limit: how many seconds the function may work on a row. If the function takes longer, this process ends, and the
            next attempt of the Spark task isolates user code; see :mod:`anabranch.spark.functions.isolation`.
    """
    if not len(origin):
        return nullcontext()
    message = Message(
        meter.told.label, partial(_offset, origin), partial(_place, meter.told.label, origin, factor), len(origin)
    )
    first = message.place(0)
    bucket = WHOLE if factor == 1 else first.bucket
    tally = meter.tally(number(origin, "task", 0), first.source, first.partition, bucket)
    return _on(meter, tally, message, limit)


def on_key(
    meter: Meter, origins: Sequence[Mapping[str, int]], bucket: tuple[int, int], limit: float = math.inf
) -> AbstractContextManager[None]:
    """Like :func:`on`, but for the rows of one key. ``origins`` has the source, partition and offset of each row.
    ``bucket`` has the numbers of the key's task and of the key's bucket.
    """
    label = meter.told.label

    def place(index: int) -> Work:
        at = origins[min(index, len(origins) - 1)]
        return Work(label, at["source"], at["partition"], at["offset"], max(0, bucket[1]), 0.0)

    first = origins[0]
    message = Message(label, lambda index: origins[index]["offset"], place, len(origins))
    tally = meter.tally(bucket[0], first["source"], first["partition"], bucket[1])
    return _on(meter, tally, message, limit)


@contextmanager
def _on(meter: Meter, tally: Tally, message: Message, limit: float) -> Iterator[None]:
    before = _mine.set(message)
    if not math.isinf(limit):
        with _lock:
            _limits[message] = limit
            _watch()
            _arm(limit, message.since)
    meter.enter(tally, message)
    done, last = None, None
    try:
        yield
        done, last = message.count, message.offset(message.count - 1)
    finally:
        meter.leave(tally, message.index if done is None else done, last)
        if not math.isinf(limit):
            with _lock:
                del _limits[message]
        _mine.reset(before)


def at(index: int) -> None:
    """Record that the function of the current context starts to work on the row with this index. If ``index`` is the
    number of rows, the function has finished all rows, and the time limit no longer applies.
    """
    message = _mine.get()
    if message is not None:
        message.index, message.since = index, time.monotonic() if index < message.count else math.inf


def number(origin: pa.Array, field: str, index: int) -> int:
    """A field of a row's hidden column; 0 for null."""
    found = origin.field(field)[index].as_py()
    return int(found) if found is not None else 0


def _offset(origin: pa.Array, index: int) -> int:
    """The offset of the record from which a row comes. A row that can't be traced to a single record has a negative
    offset. For such a row, the result is computed from the negative offset, and is the offset of some record of the
    same partition.
    """
    offset = number(origin, "offset", min(index, len(origin) - 1))
    return offset if offset >= 0 else -1 - offset


def _place(label: str, origin: pa.Array, factor: int, index: int) -> Work:
    at = min(index, len(origin) - 1)
    offset = number(origin, "offset", at)
    bucket = origin.field("bucket")[at].as_py()
    if bucket is None:
        bucket = hashing.bucket(origin.field("key")[at].as_py(), offset, factor) if factor > 1 else 0
    source, partition = (number(origin, name, at) for name in ("source", "partition"))
    return Work(label, source, partition, offset, bucket, 0.0)


def _watch() -> None:
    if not _watchers:
        _watchers.append(threading.Thread(target=_look, name="anabranch-working", daemon=True))
        _watchers[0].start()


def _look() -> None:
    while True:
        time.sleep(LOOK_EVERY)
        with _lock:
            several = dict(_limits)
        _end_if_late(several, time.monotonic())


def _end_if_late(several: dict[Message, float], now: float) -> None:
    """End this process if a function has worked on a message for too long. Otherwise, postpone the exit that
    :func:`_arm` has scheduled or, if no function is working, cancel this exit.
    """
    late = next((each for each, limit in several.items() if now - each.since > limit + LOOK_EVERY), None)
    if late is not None:
        told = late.place(late.index)
        print(f"{late.label} takes too long: {told}; the worker ends", file=sys.stderr, flush=True)
        os._exit(OVERDUE_EXIT)
    with _lock:
        if several:
            _arm(min(several.values()), now)
        elif not _limits and not math.isinf(_armed[0]):
            faulthandler.cancel_dump_traceback_later()
            _armed[0] = -math.inf


def _arm(limit: float, now: float) -> None:
    """Schedule the exit of this process, or postpone an exit that is already scheduled. Does nothing if the exit was
    scheduled or postponed less than ``LOOK_EVERY / 2`` seconds ago. (A scheduled exit happens even if a function runs
    code that never releases the global interpreter lock. No Python thread could end the process then.)
    """
    if now - _armed[0] >= LOOK_EVERY / 2:
        _armed[0] = now
        faulthandler.dump_traceback_later(limit + 3 * LOOK_EVERY, exit=True, file=_STDERR)
