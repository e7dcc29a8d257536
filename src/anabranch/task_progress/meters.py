"""Counts the progress of a Spark task in its Python worker, and reports the counts to the driver twice a second.

A lost report does no harm, because each report contains totals. If the last report fails, it is sent again until it
succeeds, for a minute at most. If no driver listens, nothing is reported.

If the driver cancels the Spark task, the worker process exits. If the process didn't exit, the task would occupy its
executor's core for up to four more seconds, because Spark waits for the worker's next rows before it kills the
worker.
"""

from __future__ import annotations

import math
import os
import selectors
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec
from pyspark import TaskContext

from anabranch.model.ssp import WHOLE
from anabranch.task_progress import local_properties
from anabranch.task_progress.counts import Cancel, Count, Greeting, Received, ReportAddress, TaskReport, Work

__all__ = ["LONG_WORK", "REPORT_EVERY", "Message", "Meter", "Tally", "meter"]

REPORT_EVERY = 0.5
_CONNECTS_WITHIN = 1.0
_AGAIN_AFTER, _AT_MOST = 0.5, 30.0
"""The pause in seconds after a failed attempt to reach the driver: the first pause, and the longest pause. Each failed
attempt doubles the pause."""
_CANCELLED_WITHIN = 0.2
"""The maximum number of seconds between the driver's message about a cancelled Spark task and Spark's own cancellation
of the task. The worker waits for this time, because Spark would log a crash if the worker exited before the
cancellation."""
_CANCEL = msgspec.json.Decoder(Cancel)
_LAST_WITHIN = 60.0
"""For how many seconds this process tries to send a Spark task's last report. After this time, the process assumes that
the driver is gone.
"""
LONG_WORK = 1.0
"""For how many seconds a function must have worked on a message before the message is reported."""

T = TypeVar("T")


class _NoMore:
    """The type of a value that marks the end of a sequence."""


_NO_MORE = _NoMore()


class Message:
    """The row on which a function is working.

    Attributes:
        label: the operator's label.
        offset: returns the offset of the record from which a row comes, given the row's index among the rows of the
            function's current call.
        place: returns where a row comes from, given the same index.
        count: the number of rows of the function's current call.
        index: this row's index. Once the function has worked on all rows, ``count``.
        since: when the work on this row began, in seconds on the monotonic clock; infinity if no work is going on.
    """

    def __init__(self, label: str, offset: Callable[[int], int], place: Callable[[int], Work], count: int) -> None:
        self.label = label
        self.offset = offset
        self.place = place
        self.count = count
        self.index = 0
        self.since = time.monotonic()


@dataclass
class Tally:
    """The counts of a bucket and, while a function is working on a message of the bucket, this message."""

    task: int
    source: int
    partition: int
    bucket: int = WHOLE
    received: int = 0
    rows: int = 0
    seconds: float = 0.0
    offset: int | None = None
    message: Message | None = None
    entered: float = 0.0

    def count(self, now: float, ordered: bool) -> Count:
        """The counts to report. They include rows that the function's current call has already finished. ``now`` is the
        time on the monotonic clock. An offset is reported only if the rows are ``ordered``.
        """
        rows, seconds, offset, message = self.rows, self.seconds, self.offset, self.message
        if message is not None:
            index = message.index
            rows, seconds = rows + index, seconds + now - self.entered
            offset = message.offset(index - 1) if index else offset
        where = self.task, self.source, self.partition, self.bucket
        return Count(*where, rows, seconds, offset if ordered else None, self.received)


@dataclass(eq=False)
class Meter:
    """Counts what a Spark task does for an operator, until the meter is closed. ``ordered`` says whether rows come in
    the order of their records.
    """

    line: ReportAddress | None
    told: TaskReport
    ordered: bool = True
    _tallies: dict[tuple[int, int, int, int], Tally] = field(default_factory=dict)
    _known: dict[tuple[int, int, int, int], Count] = field(default_factory=dict)
    _received: dict[tuple[int, int], Received] = field(default_factory=dict)
    _made: float = field(default_factory=time.monotonic)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _active: int = 0
    _since: float = 0.0
    _seconds: float = 0.0
    ended: bool = False
    until: float = math.inf
    """A time in seconds on a monotonic clock. From this time on, the meter isn't reported, even if its last report was
    not sent.
    """
    sent: int = 0
    """The number of the connection through which the meter was last reported."""

    def tally(self, task: int, source: int, partition: int, bucket: int = WHOLE) -> Tally:
        """The tally of a bucket, which is created if necessary."""
        key = task, source, partition, bucket
        found = self._tallies.get(key)
        if found is None:
            with self._lock:
                found = self._tallies.setdefault(key, Tally(task, source, partition, bucket))
        return found

    def receive(self, source: int, partition: int, rows: int, offset: int) -> None:
        """Record that ``rows`` more rows of a partition have arrived, up to the record at ``offset``."""
        before = self._received.get((source, partition))
        total = rows if before is None else before.rows + rows
        with self._lock:
            self._received[source, partition] = Received(source, partition, total, offset)

    def enter(self, tally: Tally, message: Message | None = None) -> None:
        """Record that a function begins to work on rows of a bucket. If ``message`` is given, the caller keeps
        ``message`` up to date, so that it describes the function's current row."""
        now = time.monotonic()
        with self._lock:
            tally.entered, tally.message = now, message
            if self._active == 0:
                self._since = now
            self._active += 1

    def leave(self, tally: Tally, rows: int, offset: int | None = None) -> None:
        """Record that ``rows`` more rows of a bucket are finished, up to the record at ``offset``."""
        now = time.monotonic()
        with self._lock:
            tally.message = None
            tally.rows += rows
            tally.seconds += now - tally.entered
            tally.offset = tally.offset if offset is None else offset
            self._active -= 1
            if self._active == 0:
                self._seconds += now - self._since

    @contextmanager
    def on(self, tally: Tally, rows: int, offset: int | None = None) -> Iterator[None]:
        """A context manager that counts the time of its block as work on a bucket. If the block ends without an error,
        ``rows`` more rows of the bucket count as finished, up to the record at ``offset``.
        """
        self.enter(tally)
        done, at = 0, None
        try:
            yield
            done, at = rows, offset
        finally:
            self.leave(tally, done, at)

    def timed(self, tally: Tally, given: Iterable[T]) -> Iterator[T]:
        """Yield the given items. The wait for each item counts as work on a bucket."""
        waiting = iter(given)
        while True:
            with self.on(tally, 0):
                found = next(waiting, _NO_MORE)
            if isinstance(found, _NoMore):
                return
            yield found

    def close(self) -> None:
        """Record that the Spark task has finished its work for the operator."""
        self.until = time.monotonic() + _LAST_WITHIN
        self.ended = True

    def now(self, everything: bool) -> TaskReport:
        """A report of the current counts. Unless ``everything`` is true, counts that haven't changed since the last
        report are left out.
        """
        now = time.monotonic()
        with self._lock:
            counts = {key: each.count(now, self.ordered) for key, each in self._tallies.items()}
            seconds = self._seconds + (now - self._since if self._active else 0.0)
            received, alive = tuple(self._received.values()), now - self._made
            messages = [each.message for each in self._tallies.values() if each.message is not None]
        news = tuple(each for key, each in counts.items() if everything or each != self._known.get(key))
        self._known = counts
        oldest = min(messages, key=lambda each: each.since, default=None)
        work = None
        if oldest is not None and now - oldest.since >= LONG_WORK:
            work = msgspec.structs.replace(oldest.place(oldest.index), seconds=now - oldest.since)
        return msgspec.structs.replace(
            self.told, seconds=seconds, alive=alive, counts=news, received=received, work=work, ended=self.ended
        )


def meter(line: ReportAddress | None, label: str, *, ordered: bool = True) -> Meter:
    """A meter for an operator in the current Spark task. ``line`` is the driver's address; None if no driver listens.
    For ``ordered``, see :class:`Meter`.
    """
    context = TaskContext.get()
    if context is None:
        told = TaskReport(run="", batch=-1, stage=0, partition=0, attempt=0, label=label)
    else:
        told = TaskReport(
            run=context.getLocalProperty(local_properties.RUN) or "",
            batch=int(context.getLocalProperty(local_properties.BATCH) or -1),
            stage=context.stageId(),
            partition=context.partitionId(),
            attempt=context.taskAttemptId(),
            label=label,
        )
    made = Meter(line, told, ordered)
    if line is not None:
        _teller.add(made)
    return made


class _Teller:
    """Sends the reports of a worker process's meters in a separate thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._meters: list[Meter] = []
        self._connections: dict[ReportAddress, _Connection] = {}
        self._thread: threading.Thread | None = None

    def add(self, made: Meter) -> None:
        with self._lock:
            self._meters.append(made)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="anabranch-telling", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while True:
            self._listen(REPORT_EVERY)
            with self._lock:
                meters = list(self._meters)
            done = {each for each in meters if self._is_done(each)}
            with self._lock:
                self._meters = [each for each in self._meters if each not in done]

    def _listen(self, seconds: float) -> None:
        """Wait for ``seconds``. If the driver cancels the Spark task of this process meanwhile, the process exits."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            open_ones = [each for each in self._connections.values() if each.is_open]
            if not open_ones:
                time.sleep(left)
                return
            with selectors.DefaultSelector() as selector:
                for each in open_ones:
                    selector.register(each, selectors.EVENT_READ, each)
                for key, _ in selector.select(left):
                    self._obey(key.data.cancelled())

    def _obey(self, runs: Collection[str]) -> None:
        with self._lock:
            ends = any(each.told.run in runs and not each.ended for each in self._meters)
        if ends:
            time.sleep(_CANCELLED_WITHIN)
            os._exit(1)

    def _is_done(self, meter: Meter) -> bool:
        """Report a meter. Returns whether the meter's last report has been sent, or has been given up."""
        ended, sent = meter.ended, False
        with suppress(Exception):  # the report is lost, and the Spark task continues
            sent = self._tell(meter)
        return ended and (sent or time.monotonic() > meter.until)

    def _tell(self, meter: Meter) -> bool:
        assert meter.line is not None
        connection = self._connections.setdefault(meter.line, _Connection(meter.line))
        if not connection.ready():
            return False
        everything, meter.sent = meter.sent != connection.number, connection.number
        return connection.send(meter.now(everything))


class _Connection:
    """A connection to a driver, opened again after a failure. ``number`` counts the connections opened so far."""

    def __init__(self, line: ReportAddress) -> None:
        self._line = line
        self._socket: socket.socket | None = None
        self._not_before, self._pause = 0.0, _AGAIN_AFTER
        self._held = b""
        self.number = 0

    @property
    def is_open(self) -> bool:
        return self._socket is not None

    def fileno(self) -> int:
        return -1 if self._socket is None else self._socket.fileno()

    def cancelled(self) -> list[str]:
        """The runs that the driver has cancelled since the last call. Call this only if there is something to read."""
        assert self._socket is not None
        try:
            got = self._socket.recv(2**16)
        except OSError:
            got = b""
        if not got:
            self._close()
            return []
        *lines, self._held = (self._held + got).split(b"\n")
        try:
            return [_CANCEL.decode(line).run for line in lines]
        except msgspec.MsgspecError:  # not from a driver of this version
            self._close()
            return []

    def _close(self) -> None:
        if self._socket is not None:
            with suppress(OSError):
                self._socket.close()
        self._socket, self._held = None, b""

    def ready(self) -> bool:
        if self._socket is not None:
            return True
        now = time.monotonic()
        if now < self._not_before:
            return False
        try:
            self._socket = socket.create_connection((self._line.host, self._line.port), _CONNECTS_WITHIN)
        except OSError:
            self._not_before, self._pause = now + self._pause, min(2 * self._pause, _AT_MOST)
            return False
        self.number, self._pause = self.number + 1, _AGAIN_AFTER
        return self.send(Greeting(self._line.token))

    def send(self, what: Greeting | TaskReport) -> bool:
        assert self._socket is not None
        try:
            self._socket.sendall(msgspec.json.encode(what) + b"\n")
        except OSError:
            self._close()
            return False
        return True


_teller = _Teller()
