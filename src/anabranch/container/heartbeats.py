"""Exchanges a container's reports for its coordinator's orders, within one process or over HTTP."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from operator import attrgetter
from time import monotonic
from typing import Protocol, runtime_checkable

import msgspec

from anabranch import logs
from anabranch.container.seat_lease import SeatLease
from anabranch.errors import FencedError, StoreUnavailableError
from anabranch.protocol.container import Heartbeat, HeartbeatResponse, Registration, RegistrationResponse
from anabranch.protocol.flat_report import flattened
from anabranch.protocol.lane_report import LaneReport
from anabranch.protocol.standby import StandbyReport
from anabranch.throttle import LastTold

__all__ = ["BackgroundHeartbeats", "Coordination", "DirectHeartbeats", "Heartbeats"]

_SHORTEST = 0.75
"""The shortest time that a poll waits, as a share of the period. Each poll waits for a random time between
this share and the whole period. With a fixed time, containers that were once delayed together would send all later
heartbeats at the same time.
"""

_LIVE = 1.0
"""The longest time between two heartbeats while batches are running, in seconds. The heartbeats report the batches'
progress."""
_AWAY_EVERY = 1.0
_PAUSE = 0.25
"""The longest pause after a failed heartbeat, as a share of the lease. The pause is much shorter than the lease, so
that a container doesn't lose its seat because of one failed heartbeat."""
_SHAPE = attrgetter("lane", "phase", "attempt.folder_epoch", "drain.halted")

log = logs.get_logger()


class Coordination(Protocol):
    """What a container needs from the coordinator, within one process or over HTTP."""

    def register(self, registration: Registration) -> RegistrationResponse: ...

    def heartbeat(self, beat: Heartbeat, wait: float = 0) -> HeartbeatResponse: ...


@runtime_checkable
class Listening(Coordination, Protocol):
    """A coordinator that runs in the same process and can announce news."""

    def listening(self, beat: Heartbeat, wake: Callable[[], object]) -> AbstractContextManager[None]: ...


class Heartbeats(Protocol):
    """The interface through which a container's loop exchanges heartbeats."""

    def listen(self, wake: Callable[[], object]) -> None:
        """Call ``wake`` whenever :meth:`take` can return a new answer."""
        ...

    def take(
        self, reports: Sequence[LaneReport], copies: Sequence[StandbyReport] = (), prepared: Sequence[str] = ()
    ) -> HeartbeatResponse | None:
        """Report on lanes and standbys (``copies``). ``prepared`` contains the ids of the upcoming lanes whose
        preparation has ended. Returns what should run; None until the coordinator has said what should run.

        Raises:
            FencedError: the seat is lost, and everything must stop.
        """
        ...

    def leave(self, reports: Sequence[LaneReport], *, returns: bool = False) -> None:
        """Give up the seat. Call this once all lanes have ended. ``returns`` says whether a new process will ask
        for a seat after this process has left.
        """
        ...


class DirectHeartbeats:
    """Sends a heartbeat in every turn of the container's loop. If the coordinator's store is unavailable, lanes
    continue with their last orders, and at most one heartbeat per second is attempted. Other errors propagate to the
    caller.

    Args:
        say: called with a message when the store becomes unavailable, and when it is available again.
    """

    def __init__(
        self,
        coordination: Coordination,
        seat_lease: SeatLease,
        clock: Callable[[], float] = monotonic,
        say: Callable[[str], None] = log.warning,
    ) -> None:
        self._coordination = coordination
        self._seat_lease = seat_lease
        self._clock = clock
        self._say = say
        self._away_since: float | None = None
        self._asked_at = 0.0
        self._wake: Callable[[], object] = lambda: None
        self._listening = ExitStack()

    def listen(self, wake: Callable[[], object]) -> None:
        self._wake = wake

    def take(
        self, reports: Sequence[LaneReport], copies: Sequence[StandbyReport] = (), prepared: Sequence[str] = ()
    ) -> HeartbeatResponse | None:
        _raise_if_fenced(reports, self._seat_lease.me.container)
        if self._away_since is not None and self._clock() < self._asked_at + _AWAY_EVERY:
            return self._seat_lease.answer
        self._listening.close()
        sent = self._seat_lease.beat(reports, copies=copies, prepared=prepared)
        try:
            answer = self._coordination.heartbeat(sent.beat)
        except StoreUnavailableError as error:
            self._asked_at = self._clock()
            if self._away_since is None:
                self._away_since = self._asked_at
                self._say(f"{error.what}; the lanes keep running, and the store is tried again: {error.cure}")
            return self._seat_lease.answer
        if self._away_since is not None:
            self._say(f"the store can be used again, after {self._clock() - self._away_since:.0f} s")
            self._away_since = None
        self._seat_lease.hear(sent, answer)
        _check(self._seat_lease)
        if isinstance(self._coordination, Listening):
            seen = msgspec.structs.replace(sent.beat, seen=answer.revision)
            self._listening.enter_context(self._coordination.listening(seen, self._wake))
        return self._seat_lease.answer

    def leave(self, reports: Sequence[LaneReport], *, returns: bool = False) -> None:
        self._listening.close()
        self._coordination.heartbeat(self._seat_lease.beat(reports, leaving=True, returns=returns).beat)


@dataclass(frozen=True)
class Contents:
    """What the next heartbeat reports; see :meth:`Heartbeats.take`."""

    reports: tuple[LaneReport, ...] = ()
    copies: tuple[StandbyReport, ...] = ()
    prepared: tuple[str, ...] = ()


@dataclass(frozen=True)
class Departure:
    """A container's notice that it is giving up its seat. ``returns`` says whether a new process will ask for a seat
    after this container has left."""

    returns: bool


class BackgroundHeartbeats:
    """Sends heartbeats from two threads of its own. One thread sends long polls, which wait for news. The other thread
    sends a heartbeat whenever the state of a lane or a standby changes.

    A failed heartbeat counts as missed, and the threads continue.

    Args:
        period: the longest time in seconds that a poll waits. While the coordinator can't be reached, the
            pause between two attempts is ``period`` or a quarter of the lease, whichever is shorter.
        say: called with a message when the coordinator can no longer be reached, and when it can be reached again.
    """

    def __init__(
        self, coordination: Coordination, seat_lease: SeatLease, period: float, say: Callable[[str], None] = log.warning
    ) -> None:
        self._coordination = coordination
        self._seat_lease = seat_lease
        self._period = period
        self._say = say
        self._lock = threading.Lock()
        self._contents = Contents()
        self._shape: object = None
        self._live = False
        self._departure: Departure | None = None
        self._orphaned = False
        self._told = LastTold()
        self._changed = threading.Event()
        self._wake: Callable[[], object] = lambda: None
        self._ended = threading.Event()
        self._threads = [
            threading.Thread(target=self._listen, name="beats", daemon=True),
            threading.Thread(target=self._tell, name="news", daemon=True),
        ]

    def __enter__(self) -> BackgroundHeartbeats:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._changed.set()

    def listen(self, wake: Callable[[], object]) -> None:
        self._wake = wake

    @property
    def must_stop(self) -> str:
        """Why everything must end now; empty as long as the container can continue. See :attr:`SeatLease.must_stop`."""
        with self._lock:
            return self._seat_lease.must_stop

    @property
    def lease_left(self) -> float:
        """Seconds until the lease ends; negative once it has ended."""
        with self._lock:
            return self._seat_lease.lease_left

    def take(
        self, reports: Sequence[LaneReport], copies: Sequence[StandbyReport] = (), prepared: Sequence[str] = ()
    ) -> HeartbeatResponse | None:
        _raise_if_fenced(reports, self._seat_lease.me.container)
        with self._lock:
            self._contents = Contents(tuple(reports), tuple(copies), tuple(prepared))
            lanes = [(*_SHAPE(each), each.progress.batch < 0, each.progress.batch_progress is None) for each in reports]
            self._live = any(each.progress.batch_progress is not None for each in reports)
            kept = [(copy.lane, copy.epoch, copy.number, copy.batch < 0, copy.error) for copy in copies]
            shape = (lanes, kept, self._contents.prepared)
            news, self._shape = shape != self._shape, shape
            _check(self._seat_lease)
            answer = self._seat_lease.answer
        if news:
            self._changed.set()
        return answer

    def leave(self, reports: Sequence[LaneReport], *, returns: bool = False) -> None:
        """Give up the seat. If the coordinator can't be reached, the seat becomes free only after the lease has
        ended."""
        with self._lock:
            self._contents, self._departure = replace(self._contents, reports=tuple(reports)), Departure(returns)
        self._beat(0.0)

    def _listen(self) -> None:
        while not self._ended.is_set():
            period = min(self._period, _LIVE) if self._live else self._period
            if not self._beat(period * random.uniform(_SHORTEST, 1.0)) or self._is_over:
                self._ended.wait(min(self._period, self._seat_lease.me.lease * _PAUSE))

    def _tell(self) -> None:
        while True:
            self._changed.wait()
            self._changed.clear()
            if self._ended.is_set():
                return
            self._beat(0.0)

    @property
    def _is_over(self) -> bool:
        """Whether nothing is left to run, or everything must stop. If so, the coordinator answers heartbeats at once,
        even without news.
        """
        with self._lock:
            answer = self._seat_lease.answer
            return bool(self._seat_lease.must_stop) or (answer is not None and answer.done)

    def _beat(self, wait: float) -> bool:
        try:
            answered = self._asked(wait)
            self._told.over()
            return answered
        except Exception as error:
            if self._told.is_new(repr(error)):
                log.exception("a heartbeat failed, and counts as missed")
            return False

    def _asked(self, wait: float) -> bool:
        with self._lock:
            sent = self._seat_lease.beat(
                self._contents.reports,
                leaving=self._departure is not None,
                returns=self._departure is not None and self._departure.returns,
                copies=self._contents.copies,
                prepared=self._contents.prepared,
            )
        beat = sent.beat if self._seat_lease.me.reads_parts else flattened(sent.beat)
        try:
            answer = self._coordination.heartbeat(beat, wait)
        except Exception as error:
            with self._lock:
                self._seat_lease.miss(str(error))
                orphaned = self._seat_lease.orphaned
                news, self._orphaned = bool(orphaned) and not self._orphaned, bool(orphaned)
            if news:
                self._say(f"the coordinator doesn't answer ({orphaned}); the lanes keep running, and it is asked again")
            return False
        with self._lock:
            self._seat_lease.hear(sent, answer)
            news, self._orphaned = self._orphaned, False
        if not answer.same:
            self._wake()
        if news:
            self._say("the coordinator answers again")
        return True


def _raise_if_fenced(reports: Sequence[LaneReport], container: str) -> None:
    fenced = next((report for report in reports if report.fenced), None)
    if fenced is not None:
        raise FencedError(f"container {container} must stop: it was fenced", fenced.error or "")


def _check(seat_lease: SeatLease) -> None:
    if seat_lease.must_stop:
        raise FencedError(f"container {seat_lease.me.container} must stop: {seat_lease.must_stop}", "")
