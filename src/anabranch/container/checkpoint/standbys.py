"""Maintains the standbys of a process: copies of the folders of lanes that run elsewhere."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from time import monotonic

import msgspec

from anabranch import logs
from anabranch.container import error_text
from anabranch.container.checkpoint import copying
from anabranch.container.checkpoint.folder import Folder
from anabranch.protocol.standby import StandbyAction, StandbyOrder, StandbyReport
from anabranch.throttle import Throttled

__all__ = ["Standbys"]

_LOOK_EVERY = 1.0
_AGAIN_AFTER = 30.0

log = logs.get_logger()

_Key = tuple[str, int, int]


class Standbys:
    """Maintains standbys in a thread, and refreshes them when their lanes have committed more batches.

    If a standby can't be refreshed or removed, the problem is reported, and another attempt follows later. If a
    standby is missing or out of date, the only effect is that a process takes longer to take over the lane.

    Args:
        folder: returns a lane's folder, given the lane's id and the folder's epoch.
        wake: called when there is something new to report.
        every: the seconds between two checks.
    """

    def __init__(
        self,
        folder: Callable[[str, int], Folder],
        wake: Callable[[], object] = lambda: None,
        clock: Callable[[], float] = monotonic,
        every: float = _LOOK_EVERY,
    ) -> None:
        self._folder = folder
        self._wake = wake
        self._clock = clock
        self._every = every
        self._lock = threading.Lock()
        self._wanted: dict[_Key, StandbyOrder] = {}
        self._kept: dict[_Key, StandbyReport] = {}
        self._not_before: dict[_Key, float] = {}
        self._said: dict[_Key, Throttled] = {}
        self._over = threading.Event()
        self._news = threading.Event()
        self._thread = threading.Thread(target=self._run, name="standbys", daemon=True)

    @property
    def reports(self) -> tuple[StandbyReport, ...]:
        with self._lock:
            return tuple(self._kept[key] for key in sorted(self._kept))

    def want(self, copies: Iterable[StandbyOrder]) -> None:
        """Replace the orders that this process carries out. Each order says to keep a standby up to date, to leave it
        as it is, or to delete it. If this process hasn't maintained a standby, an order to leave or to delete this
        standby has no effect."""
        wanted = {_key(copy): copy for copy in copies}
        with self._lock:
            if wanted == self._wanted:
                return
            self._wanted = wanted
            self._kept = {
                key: self._kept.get(key, StandbyReport(lane=copy.lane, epoch=copy.epoch, number=copy.number))
                for key, copy in wanted.items()
                if key in self._kept or copy.to == StandbyAction.REFRESH
            }
        if wanted and not self._thread.is_alive() and not self._over.is_set():
            self._thread.start()
        self._news.set()

    def end(self) -> None:
        """Stop maintaining standbys. Existing standbys stay."""
        self._over.set()
        self._news.set()

    def turn(self) -> None:
        """Refresh standbys that are out of date, and remove those that aren't needed. A standby that couldn't be
        refreshed or removed a short time ago is skipped."""
        with self._lock:
            self._said = {key: say for key, say in self._said.items() if key in self._wanted}
            due = [copy for key, copy in self._wanted.items() if key in self._kept]
        for copy in due:
            if self._over.is_set() or self._clock() < self._not_before.get(_key(copy), 0.0):
                continue
            try:
                self._keep(copy)
                self._said.pop(_key(copy), None)
            except Exception as error:
                self._not_before[_key(copy)] = self._clock() + _AGAIN_AFTER
                self._say(copy, str(error))
                self._tell(copy, error=error_text.failure(error).what[:300])

    def _say(self, copy: StandbyOrder, why: str) -> None:
        """Log why a standby can't be kept up to date. The log is throttled because each error message of S3 contains a
        different id, which makes a repeated error look new."""

        def say(text: str) -> None:
            log.warning("a standby can't be kept up to date", lane=copy.lane, error=text)

        self._said.setdefault(_key(copy), Throttled(say, clock=self._clock))(why)

    def _run(self) -> None:
        while not self._over.is_set():
            self.turn()
            self._news.wait(self._every)
            self._news.clear()

    def _keep(self, copy: StandbyOrder) -> None:
        source = self._folder(copy.lane, copy.epoch)
        standby = copying.standby(source, copy.number)
        if copy.to == StandbyAction.REMOVE:
            standby.remove()
            with self._lock:
                self._kept.pop(_key(copy), None)
            self._wake()
        elif copy.to == StandbyAction.REFRESH and (last := source.committed()) > self._batch(copy):
            self._tell(copy, batch=min(last, copying.refresh(source, standby)), error="")

    def _batch(self, copy: StandbyOrder) -> int:
        with self._lock:
            has = self._kept.get(_key(copy))
        return -1 if has is None or has.error else has.batch

    def _tell(self, copy: StandbyOrder, **changes: int | str) -> None:
        with self._lock:
            has = self._kept.get(_key(copy))
            if has is not None:  # otherwise, this process no longer has to maintain the standby
                self._kept[_key(copy)] = msgspec.structs.replace(has, **changes)
        self._wake()


def _key(copy: StandbyOrder) -> _Key:
    return (copy.lane, copy.epoch, copy.number)
