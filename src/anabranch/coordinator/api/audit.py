"""The audit trail: who sent which request, from where, and with what result. It contains:

- requests that change something, except heartbeats and requests for seats, which containers send all the time,
- requests that read settings, code or records,
- refused requests: up to 100 per address and minute. Further ones are only counted.

A recorded request becomes a line of JSON in a file of bounded size. If the request's path names a job, the request also
becomes an event of this job, with two exceptions:

- Requests that only ask what a change would do don't become events, because a page that plans a change sends one at
  each keystroke.
- At most one refused request per job and minute becomes an event. The event says how many other requests for the job
  were refused since the previous such event. There is a limit because a store keeps only a job's latest events: a
  sender without a token must not be able to replace them all.
"""

from __future__ import annotations

import fcntl
import os
import queue
import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Protocol

import msgspec

from anabranch import logs
from anabranch.coordinator.store import Event
from anabranch.errors import AnabranchError

__all__ = ["DRY", "Audit", "AuditTrail", "AuditedRequest"]

DRY = "anabranch.dry"
"""The key in a request's ASGI scope whose value is True if the request only asks what a change would do."""
_WAITING = 1_000
_REFUSED_A_MINUTE = 100
_ADDRESSES = 1_000
_MOST_BYTES = 10_000_000
_MINUTE = 60.0
log = logs.get_logger()


class AuditedRequest(msgspec.Struct, frozen=True):
    """A request in the audit trail."""

    at: float
    """When the request was recorded, in seconds since 1970."""
    who: str
    """The request's role; ``nobody`` if its token is missing or wrong."""
    client_name: str
    """The name that the client states, which isn't verified."""
    address: str
    method: str
    path: str
    status: int
    why: str = ""
    """Why the request was refused; empty if it wasn't refused."""
    dry: bool = False
    """Whether the request only asked what a change would do."""
    left_out: int = 0
    """How many refused requests from this address were left out since a refused request was last recorded."""

    @property
    def job(self) -> str | None:
        """The job that the request's path names, directly or in a container's id; None if the path names no job."""
        parts = self.path.split("/")
        if parts[1:2] == ["jobs"] and len(parts) > 2:
            return parts[2]
        return parts[2].split(":")[0] if parts[1:2] == ["containers"] and len(parts) > 2 else None


@dataclass
class _RefusalEvent:
    """The last event about a refused request for a job."""

    at: float
    others: int = 0
    """How many later refused requests for the job didn't become events, and were recorded only in the file."""


class AuditTrail(Protocol):
    """A record of requests."""

    def take(self, requested: AuditedRequest, /) -> None:
        """Record a request. Returns at once, and raises nothing."""
        ...


class _Worker:
    """A thread that passes requests to ``use``, one after the other. At most 1,000 requests can wait."""

    def __init__(self, use: Callable[[AuditedRequest], None], name: str) -> None:
        self._use = use
        self._waiting: queue.Queue[AuditedRequest | None] = queue.Queue(_WAITING)
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def put(self, requested: AuditedRequest) -> bool:
        """Add a request to the queue. Returns at once. The result is False if too many requests are already waiting."""
        try:
            self._waiting.put_nowait(requested)
        except queue.Full:
            return False
        return True

    def close(self, ends: float) -> bool:
        """Let the thread process the requests that are still waiting, and then end. Waits for the thread until ``ends``
        on the monotonic clock. Returns whether the thread has ended."""
        with suppress(queue.Full):
            self._waiting.put(None, timeout=max(0.0, ends - monotonic()))
        self._thread.join(max(0.0, ends - monotonic()))
        return not self._thread.is_alive()

    def _work(self) -> None:
        while (requested := self._waiting.get()) is not None:
            try:
                self._use(requested)
            except Exception as error:  # whatever it is about, the next requests must be recorded
                log.warning("a request couldn't be recorded", path=requested.path, error=repr(error))


class Audit:
    """An audit trail in a file that only its owner can read. Once the file is larger than 10 MB, the suffix
    ``.1`` is added to its name, and a new file is begun. An older file with this suffix is replaced. Several processes
    can write to the same file. Only the first 100 refused requests from an address in a minute are recorded. Any others
    are only counted.

    Args:
        path: the file.
        note: adds an event to a job; raises AnabranchError if the job doesn't exist, or the event can't be added now.
        clock: returns the time of a monotonic clock in seconds, for counting refused requests per minute.
    """

    def __init__(self, path: Path, note: Callable[[Event], None], clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._path = path
        self._note = note
        self._refused: OrderedDict[str, list[float]] = OrderedDict()
        self._refusal_events: dict[str, _RefusalEvent] = {}
        self._lines = _Worker(self._write, "anabranch-audit")
        self._events = _Worker(self._tell, "anabranch-audit-events")

    def take(self, requested: AuditedRequest, /) -> None:
        if requested.why:
            counted = self._counted(requested)
            if counted is None:
                return
            requested = counted
        if not self._lines.put(requested):
            log.warning("a request isn't in the audit trail", path=requested.path, address=requested.address)

    def close(self, within: float = 10.0) -> None:
        """Write the requests that are still waiting, and stop. Returns after at most ``within`` seconds, even if some
        requests haven't been written by then.
        """
        ends = monotonic() + within
        if not self._lines.close(ends):
            log.warning("the last requests aren't in the audit trail", file=str(self._path))
        elif not self._events.close(ends):
            log.warning("the last requests are in the audit trail alone", file=str(self._path))

    def _counted(self, requested: AuditedRequest) -> AuditedRequest | None:
        """The refused request as it should be recorded; None if it is only counted."""
        now = self._clock()
        times = self._refused.setdefault(requested.address, [now, 0, 0])
        self._refused.move_to_end(requested.address)
        while len(self._refused) > _ADDRESSES:
            self._refused.popitem(last=False)
        since, written, left_out = times
        if now - since > _MINUTE:
            since, written = now, 0
        if written >= _REFUSED_A_MINUTE:
            times[:] = since, written, left_out + 1
            return None
        times[:] = since, written + 1, 0
        return msgspec.structs.replace(requested, left_out=int(left_out))

    def _write(self, requested: AuditedRequest) -> None:
        try:
            self._add(msgspec.json.encode(requested) + b"\n")
        except (OSError, ValueError) as error:
            log.warning("the audit trail can't be written", file=str(self._path), error=str(error))
        if requested.job is not None and not requested.dry and not self._events.put(requested):
            log.info("a request is in the audit trail alone", job=requested.job, error="too many wait for the store")

    def _add(self, line: bytes) -> None:
        if not self._append(line):
            self._append(line)

    def _append(self, line: bytes) -> bool:
        """Add a line to the file. Returns False if other processes have deleted this file meanwhile, because they have
        filled it and the next one."""
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, line)
            file = os.fstat(descriptor)
            if file.st_size > _MOST_BYTES:
                self._set_aside(descriptor)
        finally:
            os.close(descriptor)
        return file.st_nlink > 0

    def _set_aside(self, descriptor: int) -> None:
        """Rename the full file, unless another process has renamed it, or is about to."""
        with suppress(BlockingIOError, FileNotFoundError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(descriptor), self._path.stat()):
                self._path.replace(f"{self._path}.1")

    def _tell(self, requested: AuditedRequest) -> None:
        job = requested.job or ""
        now, last = self._clock(), self._refusal_events.get(job)
        if requested.why and last is not None and now - last.at < _MINUTE:
            last.others += 1
            return
        others = last.others if requested.why and last is not None else 0
        reasons = (
            requested.why,
            f"who says that it is {requested.client_name!r}" if requested.client_name else "",
            f"{others} others were refused since the last such event: see the audit trail" if others else "",
        )
        event = Event(
            kind="other",
            job=job,
            at=requested.at,
            who=f"{requested.who} at {requested.address}",
            what=f"{requested.method} {requested.path}: {requested.status}",
            why=", ".join(filter(None, reasons)),
        )
        try:
            self._note(event)
        except AnabranchError as error:
            log.info("a request is in the audit trail alone", job=job, error=error.what)
            return
        if requested.why:
            self._refusal_events[job] = _RefusalEvent(now)
