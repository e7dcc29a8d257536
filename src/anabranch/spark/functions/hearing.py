"""Receives the reports of Spark tasks about their progress in running batches, and ends the Python workers of cancelled
Spark tasks. This is the driver's side of :mod:`anabranch.task_progress.meters`.
"""

from __future__ import annotations

import contextlib
import secrets
import selectors
import socket
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec
from pyspark import SparkContext

from anabranch import logs
from anabranch.spark.session import cluster
from anabranch.task_progress.counts import Cancel, Count, Greeting, ReportAddress, TaskCounts, TaskReport, Work

__all__ = ["Listener", "listening"]

log = logs.get_logger()

_LONGEST = 2**20
"""The size limit of a report in bytes. A report is a single line. If a line is longer, its sender is disconnected."""
_MOST_RUNS, _MOST_CONNECTIONS, _MOST_TASKS, _MOST_COUNTS = 256, 4096, 4096, 65536
_FRESH = 3.0
"""A worker counts as gone if its newest report is more than this number of seconds old."""
_HELLO, _TOLD = msgspec.json.Decoder(Greeting), msgspec.json.Decoder(TaskReport)

_Key = tuple[int, int, int, int]


@dataclass
class _Task:
    """The newest report of one attempt of a Spark task, about one operator."""

    told: TaskReport
    at: float
    connection: int
    counts: dict[_Key, Count] = field(default_factory=dict)
    gone: bool = False

    def is_fresh(self, now: float) -> bool:
        return not self.told.ended and not self.gone and now - self.at < _FRESH


@dataclass
class _Run:
    """The reports on the newest batch of one run of a query."""

    batch: int
    tasks: dict[tuple[int, int, int, str], _Task] = field(default_factory=dict)


@dataclass
class _Client:
    number: int
    known: bool = False
    held: bytes = b""


class Listener:
    """Receives the reports of Spark tasks, in a thread of its own, until :meth:`close` is called. A connection that
    sends invalid input is closed.

    Args:
        host: the address to which workers connect.
        bind: addresses on which to listen instead of ``host``. The listener uses the first of these addresses that
            belongs to this machine. If none of them does, the listener uses ``host``. If ``host`` doesn't belong to
            this machine either, the listener uses all addresses of the machine.

    Raises:
        OSError: no socket can be opened.
    """

    def __init__(self, host: str, bind: Iterable[str] = ()) -> None:
        self._socket = _bound([*bind, host])
        self._socket.setblocking(False)
        self.line = ReportAddress(host, self._socket.getsockname()[1], secrets.token_urlsafe(24))
        self._lock = threading.Lock()
        self._runs: OrderedDict[str, _Run] = OrderedDict()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._socket, selectors.EVENT_READ)
        self._known: dict[int, socket.socket] = {}
        self._cancelled: OrderedDict[str, None] = OrderedDict()
        self._clients = 0
        self._connected = 0
        self._closed = False
        threading.Thread(target=self._listen, name="hears workers", daemon=True).start()

    def of(self, run: str, batch: int) -> list[TaskCounts]:
        """The newest reports about a batch: one report for each operator in each attempt of a Spark task. Empty if
        there are no reports about the batch, or if the run already has reports about a later batch."""
        now = time.monotonic()
        with self._lock:
            found = self._runs.get(run)
            if found is None or found.batch != batch:
                return []
            return [
                TaskCounts(each.told, tuple(each.counts.values()), each.at, each.is_fresh(now))
                for each in found.tasks.values()
            ]

    def oldest(self, run: str) -> Work | None:
        """The message that a function has been working on the longest, in the newest batch of a query's run; None if no
        function is working on a message. (Workers report a message only when a function has worked on it for a second.
        Reports of workers that are gone don't count.)
        """
        now = time.monotonic()
        with self._lock:
            found = self._runs.get(run)
            works = [
                each.told.work
                for each in ([] if found is None else found.tasks.values())
                if each.told.work is not None and each.is_fresh(now)
            ]
        return max(works, key=lambda each: each.seconds, default=None)

    def hear(self, told: TaskReport, connection: int = 0) -> None:
        """Record a report, unless it is about an older batch of the run. If there are too many runs, a new run replaces
        the oldest run. If a batch has too many Spark tasks, or if a Spark task has too many counts, the additional ones
        are ignored."""
        with self._lock:
            run = self._runs.get(told.run)
            if run is not None and told.batch < run.batch:
                return
            if run is None or told.batch > run.batch:
                run = self._runs[told.run] = _Run(told.batch)
                self._runs.move_to_end(told.run)
                while len(self._runs) > _MOST_RUNS:
                    self._runs.popitem(last=False)
            key = told.stage, told.partition, told.attempt, told.label
            if key not in run.tasks and len(run.tasks) >= _MOST_TASKS:
                return
            task = run.tasks.setdefault(key, _Task(told, 0.0, connection))
            task.told, task.at, task.connection, task.gone = told, time.monotonic(), connection, False
            for each in told.counts:
                place = each.task, each.source, each.partition, each.bucket
                if place in task.counts or len(task.counts) < _MOST_COUNTS:
                    task.counts[place] = each

    def cancel(self, run: str) -> None:
        """Tell Python workers to exit if they are working on Spark tasks of a query's run. Call this once Spark has
        cancelled these Spark tasks, or no longer needs their results.
        """
        with self._lock:
            self._cancelled[run] = None
            while len(self._cancelled) > _MOST_RUNS:
                self._cancelled.popitem(last=False)
            known = list(self._known.values())
        for each in known:
            _send(each, run)

    def close(self) -> None:
        self._closed = True
        with contextlib.suppress(OSError):
            self._socket.close()

    def _listen(self) -> None:
        while not self._closed:
            for key, _ in self._selector.select(1.0):
                try:
                    if key.data is None:
                        self._accept()
                    else:
                        self._read(key.fileobj, key.data)
                except Exception:
                    self._end(key.fileobj, key.data)

    def _accept(self) -> None:
        connection, _ = self._socket.accept()
        if self._connected >= _MOST_CONNECTIONS:
            connection.close()
            return
        connection.setblocking(False)
        self._clients, self._connected = self._clients + 1, self._connected + 1
        self._selector.register(connection, selectors.EVENT_READ, _Client(self._clients))

    def _read(self, connection: Any, client: _Client) -> None:
        got = connection.recv(2**16)
        *lines, client.held = (client.held + got).split(b"\n")
        for line in lines:
            if client.known:
                told = _TOLD.decode(line)
                self.hear(told, client.number)
                if told.run in self._cancelled and not told.ended:
                    _send(connection, told.run)
            else:
                client.known = secrets.compare_digest(_HELLO.decode(line).token, self.line.token)
                if not client.known:
                    raise PermissionError
                with self._lock:
                    self._known[client.number] = connection
        longest = _LONGEST if client.known else 1000
        if not got or len(client.held) > longest:
            self._end(connection, client)

    def _end(self, connection: Any, client: _Client | None) -> None:
        """Close a connection. From then on, :meth:`oldest` ignores the message that the worker was working on."""
        if client is None:
            return
        self._connected -= 1
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(connection)
        connection.close()
        with self._lock:
            self._known.pop(client.number, None)
            for run in self._runs.values():
                for task in run.tasks.values():
                    if task.connection == client.number:
                        task.gone = True


def _send(connection: socket.socket, run: str) -> None:
    """Tell a worker that a run is cancelled. If this fails, for example because the worker doesn't read from the
    connection, Spark kills the worker some seconds later.
    """
    with contextlib.suppress(OSError):
        connection.send(msgspec.json.encode(Cancel(run)) + b"\n")


def _bound(hosts: Iterable[str]) -> socket.socket:
    """A socket that listens on the first address in ``hosts`` that belongs to this machine. If no address in ``hosts``
    does, the socket listens on all addresses of the machine.
    """
    for host in (*hosts, ""):
        made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            made.bind((host, 0))
            made.listen(128)
        except OSError:
            made.close()
        else:
            return made
    raise OSError("no address to listen at")


_listeners: dict[str, Listener | None] = {}
_opening = threading.Lock()


def listening(context: SparkContext) -> Listener | None:
    """The listener for the workers of a Spark application; None if listening isn't possible."""
    with _opening:
        name = str(context.applicationId)
        if name not in _listeners:
            for each in _listeners.values():
                if each is not None:
                    each.close()
            _listeners.clear()
            _listeners[name] = _opened(context)
        return _listeners[name]


def _opened(context: SparkContext) -> Listener | None:
    try:
        if not cluster.is_cluster(str(context.master)):
            return Listener("127.0.0.1")
        host = context.getConf().get("spark.driver.host") or "127.0.0.1"
        bind = context.getConf().get("spark.driver.bindAddress")
        return Listener(host, [bind] if bind else [])
    except OSError as error:
        log.warning("how far a batch is won't be known before its end: workers can't be heard", error=str(error))
        return None
