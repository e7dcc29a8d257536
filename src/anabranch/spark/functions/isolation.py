"""Runs user code in separate processes. A message is rejected if it takes too long, or if it kills the process that
works on it.

The first attempt of a Spark task runs user code in the worker itself, unless :func:`note` has recorded a dead worker.
If the worker dies, or ends because a message takes too long, Spark normally retries the Spark task, perhaps in another
executor. All later attempts run user code in forks of a clean process, one fork for each thread.

If a fork dies, another fork repeats its work. A function then gets its messages one by one. A processor gets all
messages of the turn again (see :mod:`anabranch.spark.functions.turns`). A message is rejected if it takes too long, or
after :data:`TRIES` forks have died on it. (For a function, only forks that got this message alone count.) So a single
attempt of a Spark task finds all messages that kill processes. If a rejection fails the lane, the attempt ends at the
first of these messages."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from pyspark import SparkContext, TaskContext, cloudpickle

from anabranch import sockets
from anabranch.spark.functions import arrow_batches, buckets, isolation_host, messages
from anabranch.spark.functions.calling import BATCH, Begin, Evaluator, Outcome, Rejection, UserFunction, overdue
from anabranch.spark.functions.isolation_host import Channel, Service

__all__ = [
    "BEGINS_WITHIN",
    "MOST",
    "PAUSE",
    "TRIES",
    "Calls",
    "Host",
    "LostError",
    "begin",
    "called",
    "end",
    "is_needed",
    "killed",
    "narrowed",
    "note",
    "service",
]

TRIES = 3
"""How many processes must have died on the same message before the message is rejected."""

MOST = 16
"""The maximum number of processes in which one Spark task isolates user code. So no more than this number of threads
work at the same time in such a Spark task.
"""

_BEFORE = -1
PAUSE = 2.0
"""Seconds to wait after a process was killed. If the kernel killed the process because memory ran out, the message may
not be the cause, and enough memory may soon be free again.
"""

BEGINS_WITHIN = 120.0
"""Seconds within which a process must have loaded the job's functions and begun to work on a request."""

_KILLED = "killed by SIGKILL"
_ROWS, _BYTES, _ENDING = 128, 16 * 2**20, 10.0
_SETTING = "anabranch.isolated"
_DIED = "Python worker exited unexpectedly"


def is_needed() -> bool:
    """Whether this Spark task must isolate user code."""
    context = TaskContext.get()
    return context is not None and (context.attemptNumber() > 0 or context.getLocalProperty(_SETTING) == "true")


isolated_lanes: set[str] = set()
"""The lanes whose next batch isolates user code even in the first attempts of Spark tasks; see :func:`note`."""


def note(lane: str, error: BaseException) -> None:
    """Note a lane's failure if ``error`` shows that a Python worker has died. The lane then isolates user code, even in
    the first attempts of Spark tasks, until a batch has been published. (If Spark is configured not to retry Spark
    tasks, there are no other attempts.)
    """
    if _DIED in str(error):
        isolated_lanes.add(lane)


def begin(context: SparkContext, lane: str) -> None:
    """Record that this thread begins a batch of a lane. If :func:`note` has recorded a dead worker of the lane, the
    batch isolates user code even in the first attempts of its Spark tasks.
    """
    context.setLocalProperty(_SETTING, "true" if lane in isolated_lanes else "false")


def end(lane: str) -> None:
    """Record that a lane's batch has been published, so that first attempts no longer isolate the lane's user code."""
    isolated_lanes.discard(lane)


class LostError(Exception):
    """The process that ran user code has died, or was killed because it took too long.

    Args:
        at: the number of the message that the process was working on; -1 if it hadn't started to work on any.
        how: how the process ended, in words.
        late: whether the process was killed because it took too long.
    """

    def __init__(self, at: int, how: str, late: bool) -> None:
        super().__init__(how)
        self.at, self.how, self.late = at, how, late


class _Fork:
    """A process that runs user code."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._socket, theirs = sockets.pair()
        with theirs:
            self._pid = host.fork(theirs)

    def ask(self, request: object, begin: Begin, seconds: float, answer: Callable[[Any], Any]) -> Any:
        """Send a request to the process, and return the result. A request consists of numbered messages.

        Args:
            begin: called with the number of each message before the process works on that message. After the last
                message, called with the count of messages.
            seconds: how long the process may work on a message. The time that it spends waiting for answers, and the
                time after the last message, don't count.
            answer: answers the questions of the process.

        Raises:
            LostError: the process died, took too long, or didn't begin the first message within 120 seconds.
        """
        at = _BEFORE
        asked = time.monotonic()
        try:
            messages.send(self._socket, request, BEGINS_WITHIN)
            left: float | None = asked + BEGINS_WITHIN - time.monotonic()
            while True:
                waiting = time.monotonic()
                what, content = messages.receive(self._socket, left)
                if what == "done":
                    return content
                if what == "begin":
                    at, left = content, None if math.isinf(seconds) else seconds
                    begin(at)
                elif what == "worked":
                    left = None
                    begin(content)
                else:
                    left = None if left is None else max(0.0, left - (time.monotonic() - waiting))
                    messages.send(self._socket, _answered(answer, content))
        except messages.OutOfTime:
            self.kill()
            how = f"it hasn't started within {BEGINS_WITHIN:g} s" if at == _BEFORE else overdue(seconds)
            raise LostError(at, how, late=True) from None
        except messages.Closed:
            raise LostError(at, isolation_host.told(self.kill()), late=False) from None

    def kill(self) -> int:
        """End the process, unless it has already ended. For the result, see :meth:`Host.ended`."""
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        self._socket.close()
        return self._host.ended(self._pid)

    def close(self) -> None:
        self._socket.close()


def _answered(answer: Callable[[Any], Any], question: object) -> tuple[bool, Any]:
    try:
        return True, answer(question)
    except Exception as error:
        return False, str(error)


class Host:
    """Starts the processes that run user code. Each process calls ``open_service`` once, and passes all requests to the
    service that this call returns. Raises RuntimeError if the processes can't load the job's functions.
    """

    def __init__(self, open_service: Callable[[], Service]) -> None:
        self._lock = threading.Lock()
        self._idle: list[_Fork] = []
        self._control, theirs = sockets.pair()
        with theirs:
            command = [sys.executable, "-m", isolation_host.__name__, str(theirs.fileno())]
            paths = os.pathsep.join(path for path in sys.path if path)
            self._process = subprocess.Popen(
                command,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": paths},
            )
        try:
            messages.send(self._control, cloudpickle.dumps(open_service), BEGINS_WITHIN)  # type: ignore[no-untyped-call]
            failed = messages.receive(self._control, BEGINS_WITHIN)
        except messages.Closed:
            failed = "it has ended"
        except messages.OutOfTime:
            failed = f"it hasn't loaded the job's functions within {BEGINS_WITHIN:g} s"
        if failed:
            self.close(_ENDING)
            raise RuntimeError(f"the process for user code can't start: {failed}")

    def fork(self, connection: socket.socket) -> int:
        with self._lock, self._needed():
            socket.send_fds(self._control, [isolation_host.FORK], [connection.fileno()])
            found = messages.receive(self._control)
        if isinstance(found, str):
            raise RuntimeError(f"no process for user code can be started: {found}")
        return int(found)

    def ended(self, pid: int) -> int:
        """Wait for a process to end, and return its exit code, or the negated number of the signal that ended it."""
        with self._lock, self._needed():
            self._control.sendall(b"w")
            messages.send(self._control, pid)
            return int(messages.receive(self._control))

    @contextmanager
    def _needed(self) -> Iterator[None]:
        """A context for talking to the process that starts the forks. Raises RuntimeError if that process has ended."""
        try:
            yield
        except (OSError, messages.Closed):
            how = isolation_host.told(self._process.wait(BEGINS_WITHIN))
            raise RuntimeError(f"the process that starts those for user code has ended: {how}") from None

    def ask(
        self,
        request: object,
        begin: Begin = lambda _: None,
        seconds: float = math.inf,
        answer: Callable[[Any], Any] = lambda _: None,
    ) -> Any:
        """Let an idle process, or a new one, work on a request; see :meth:`_Fork.ask`. Raises RuntimeError if
        :data:`TRIES` processes in succession end before user code starts.
        """
        for _ in range(TRIES):
            with self._lock:
                fork = self._idle.pop() if self._idle else None
            fork = fork or _Fork(self)
            try:
                found = fork.ask(request, begin, seconds, answer)
            except LostError as lost:
                if lost.how == _KILLED:
                    time.sleep(PAUSE)
                if lost.at != _BEFORE:
                    raise
                how = lost.how
            else:
                with self._lock:
                    self._idle.append(fork)
                return found
        raise RuntimeError(f"the process for user code ends before that begins: {how}")

    def close(self, seconds: float = BEGINS_WITHIN) -> None:
        for fork in self._idle:
            fork.close()
        self._control.close()  # the process ends when its connection is closed
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()


class Calls(Protocol):
    """Calls a user's function on rows, in this process or in another process."""

    async def __call__(self, rows: pa.RecordBatch, begin: Begin, fails: bool = False) -> Outcome: ...


def _opened(user: UserFunction) -> Service:
    """Runs in a fork. Returns the service that calls the function."""
    evaluator, loop = Evaluator(user), asyncio.new_event_loop()

    def serve(request: Any, channel: Channel) -> Any:
        packed, fails = request
        (rows,) = arrow_batches.unpacked(packed).to_batches()
        outcome = buckets.done(loop, evaluator(rows, channel.begin(rows.num_rows), fails))
        return arrow_batches.packed(outcome.rows), *outcome[1:]

    return serve


def called(user: UserFunction, host: Host) -> Calls:
    """An object that calls a function in the processes of a host."""
    return _Isolated(user, host)


def service(user: UserFunction) -> Callable[[], Service]:
    """The ``open_service`` of a :class:`Host` whose processes call the user's function."""
    return partial(_opened, user)


@dataclass(frozen=True)
class _Isolated:
    user: UserFunction
    host: Host

    async def __call__(self, rows: pa.RecordBatch, begin: Begin, fails: bool = False) -> Outcome:
        nothing = self.user.schema.empty_table()
        names_late = self.user.kind != "map_arrow"  # map_arrow functions are called once for all rows
        ask = partial(self._ask, begin=begin, fails=fails)
        return narrowed(rows, nothing, ask, names_late, fails)

    def _ask(self, rows: pa.RecordBatch, at: int, begin: Begin, fails: bool) -> Outcome:
        begun = partial(_begun, begin, at)
        found, *rest = self.host.ask((arrow_batches.packed(rows), fails), begun, self.user.seconds)
        return Outcome(arrow_batches.unpacked(found), *rest)


def _begun(begin: Begin, at: int, place: int) -> None:
    begin(at + place)


_Ask = Callable[[pa.RecordBatch, int], Outcome]


def narrowed(rows: pa.RecordBatch, nothing: pa.Table, ask: _Ask, names_late: bool, fails: bool) -> Outcome:
    """The results for rows that other processes work on. Rows that kill these processes, or take too long, are
    rejected.

    Args:
        nothing: an empty table with the schema of the results.
        ask: a function that takes some consecutive rows and the index of the first one, and returns the rows' result.
            It raises LostError if the process is lost.
        names_late: whether a LostError about a timeout names the row that took too long.
        fails: whether a rejected row fails the lane. If so, no rows are processed after the first rejection.
    """
    step = min(_ROWS, max(1, _BYTES * rows.num_rows // max(1, rows.nbytes)))
    parts: dict[int, Outcome] = {}
    todo = [(at, min(step, rows.num_rows - at)) for at in range(0, rows.num_rows, step)][::-1]
    while todo and not (fails and any(each.rejected for each in parts.values())):
        at, count = todo.pop()
        try:
            parts[at] = ask(rows.slice(at, count), at)
        except LostError as lost:
            if lost.late and (names_late or count == 1):
                late = at + min(lost.at, count - 1)
                parts[late] = _rejected(nothing, lost.how)
                todo += [(start, end - start) for start, end in ((late + 1, at + count), (at, late)) if end > start]
            elif count > 1:
                todo += [(place, 1) for place in range(at + count - 1, at - 1, -1)]
            else:
                parts[at] = _tried_again(rows.slice(at, 1), nothing, at, ask, lost)
    return _together(nothing, [parts[at] for at in sorted(parts)], sorted(parts))


def _tried_again(row: pa.RecordBatch, nothing: pa.Table, at: int, ask: _Ask, lost: LostError) -> Outcome:
    for _ in range(TRIES - 1):
        try:
            return ask(row, at)
        except LostError as again:
            if again.late:
                return _rejected(nothing, again.how)
            lost = again
    return _rejected(nothing, killed(lost.how))


def killed(how: str) -> str:
    """The error text for a message that kills processes. ``how`` says in words how the last process ended."""
    return f"the worker died on it {TRIES} times: {how}"


def _rejected(nothing: pa.Table, error: str) -> Outcome:
    return Outcome(nothing, np.array([], np.int64), (Rejection(0, error, raised=False),))


def _together(nothing: pa.Table, parts: list[Outcome], begins: list[int]) -> Outcome:
    rows = arrow_batches.combined(pa.concat_tables([nothing, *(part.rows for part in parts)]))
    places = [part.places + at for part, at in zip(parts, begins, strict=True)]
    rejected = [
        each if each.place == BATCH else each._replace(place=each.place + at)
        for part, at in zip(parts, begins, strict=True)
        for each in part.rejected
    ]
    guessed = [np.full(len(part.places), False) if part.guessed is None else part.guessed for part in parts]
    return Outcome(
        pa.Table.from_batches(rows),
        np.concatenate([np.array([], np.int64), *places]),
        tuple(rejected),
        np.concatenate(guessed) if any(each.any() for each in guessed) else None,
    )
