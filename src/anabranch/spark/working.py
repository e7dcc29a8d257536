"""What the Python functions of a lane are at: told by workers in files, read by the driver on the same machine."""

from __future__ import annotations

import faulthandler
import json
import math
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from anabranch.model import hashing

__all__ = ["Work", "at", "oldest", "on"]

_EVERY = 1.0
_LATE = 75
"""The exit code of a worker in which a message takes too long."""
_FRESH = 3 * _EVERY
"""Files that are older are of workers that are gone."""


@dataclass(frozen=True)
class Work:
    """A message that a function has worked on for so many ``seconds``.

    ``source``: the node that read it, ``partition`` and ``offset`` its place there; ``bucket`` by the lane's factor.
    """

    label: str
    source: int
    partition: int
    offset: int
    bucket: int
    seconds: float


class _Message:
    """The row of some rows that a thread is at. ``since``: in seconds of a monotonic clock."""

    def __init__(self, file: str, label: str, origin: pa.Array, factor: int, limit: float) -> None:
        self.file = file
        self.label = label
        self.origin = origin
        self.factor = factor
        self.limit = limit
        self.index = 0
        self.since = time.monotonic()

    def told(self, now: float) -> dict[str, object]:
        row = self.origin[min(self.index, len(self.origin) - 1)].as_py()
        bucket = row["bucket"]
        if bucket is None:
            bucket = hashing.bucket(row["key"], row["offset"], self.factor)
        return {
            "label": self.label,
            "source": row["source"],
            "partition": row["partition"],
            "offset": row["offset"],
            "bucket": bucket,
            "seconds": now - self.since,
        }


_mine: ContextVar[_Message | None] = ContextVar("message", default=None)
_all: set[_Message] = set()
_lock = threading.Lock()
_watchers: list[threading.Thread] = []
_armed = [-math.inf]
_STDERR = 2


@contextmanager
def on(file: str, label: str, origin: pa.Array, factor: int, limit: float = math.inf) -> Iterator[None]:
    """Inside ``with``, a function works on rows one by one; see :func:`at`.

    Args:
        file: '' where nobody looks.
        limit: how many seconds it may work on a row. If it takes longer, this process ends; see
            :mod:`anabranch.spark.isolation` for what follows.
    """
    if (not file and math.isinf(limit)) or not len(origin):
        yield
        return
    message = _Message(file, label, origin, factor, limit)
    before = _mine.set(message)
    with _lock:
        _all.add(message)
        _watch()
        if not math.isinf(limit):
            _arm(limit, message.since)
    try:
        yield
    finally:
        with _lock:
            _all.discard(message)
        _mine.reset(before)


def at(index: int) -> None:
    """The function begins with the row of that number."""
    message = _mine.get()
    if message is not None:
        message.index, message.since = index, time.monotonic()


def oldest(file: str) -> Work | None:
    """The message that functions of a lane have worked on longest, if that is a second or more."""
    found: list[Work] = []
    for path in Path(file).parent.glob(f"{Path(file).name}.*"):
        try:
            if time.time() - path.stat().st_mtime < _FRESH:
                found.append(Work(**json.loads(path.read_text())))
        except FileNotFoundError:
            continue  # its worker has gone on
    return max(found, key=lambda each: each.seconds, default=None)


def _watch() -> None:
    if not _watchers:
        _watchers.append(threading.Thread(target=_look, name="anabranch-working", daemon=True))
        _watchers[0].start()


def _look() -> None:
    told: set[Path] = set()
    while True:
        time.sleep(_EVERY)
        now, longest = time.monotonic(), dict[Path, _Message]()
        with _lock:
            several = list(_all)
        for message in several:
            path = Path(f"{message.file}.{os.getpid()}")
            if message.file and now - message.since >= _EVERY and path.parent.is_dir():
                before = longest.setdefault(path, message)
                longest[path] = min(before, message, key=lambda each: each.since)
        _end_if_late(several, now)
        with suppress(OSError):  # of a full disk, for one: others see the less, and the function goes on
            for path, message in longest.items():
                part = path.with_name(f".{path.name}")
                part.write_text(json.dumps(message.told(now)))
                part.replace(path)
            for path in told - longest.keys():
                path.unlink(missing_ok=True)
        told = set(longest)


def _end_if_late(several: list[_Message], now: float) -> None:
    """End this process if a message takes too long; let :func:`_arm` do so while there is one that may."""
    late = next((each for each in several if now - each.since > each.limit + _EVERY), None)
    if late is not None:
        print(f"{late.label} takes too long: {late.told(now)}; the worker ends", file=sys.stderr, flush=True)
        os._exit(_LATE)
    limit = min((each.limit for each in several), default=math.inf)
    with _lock:
        if not math.isinf(limit):
            _arm(limit, now)
        elif not _all and not math.isinf(_armed[0]):
            faulthandler.cancel_dump_traceback_later()
            _armed[0] = -math.inf


def _arm(limit: float, now: float) -> None:
    """Let this process end if that isn't called again in time: no thread of ours can run while code that doesn't give
    Python's lock back works on a message."""
    if now - _armed[0] >= _EVERY / 2:
        _armed[0] = now
        faulthandler.dump_traceback_later(limit + 3 * _EVERY, exit=True, file=_STDERR)
