"""Starts the queries of lanes before the lanes themselves start.

Where a lane ends is known as soon as its last batch is planned. While this batch is being written, the first batch of a
successor can already be planned.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from anabranch import crash_points, logs
from anabranch.container.checkpoint.folder import Folder
from anabranch.errors import StateError
from anabranch.model.lane import Lane
from anabranch.model.ssp import SSP
from anabranch.spark.query.preanalysis import PreanalyzedQuery
from anabranch.spark.query.query import LaneQuery

__all__ = ["Handover", "PrestartedQuery", "Prestarter", "begins"]

log = logs.get_logger()

Offsets = dict[SSP, int]
_Key = tuple[str, int]


def begins(lane: Lane, ends: Mapping[str, Mapping[SSP, int]]) -> Offsets | None:
    """The start offsets of a lane for the partitions that its predecessors have read, by whole SSP.

    None in any of these cases:

    - The lane has no predecessors.
    - The end of a predecessor isn't known.
    - The predecessors end at different offsets of the same SSP.
    - The lane reads an SSP that isn't in ``lane.fresh``, and that no predecessor has read.

    Args:
        ends: for each lane id, the offsets at which the lane ends, by whole SSP. Lanes whose end isn't known are
            missing.
    """
    if not lane.predecessors or not all(name in ends for name in lane.predecessors):
        return None
    found: Offsets = {}
    for ssp in {each.whole for each in (*lane.ssps, *lane.broadcast)}.difference(lane.fresh):
        at = {ends[name][ssp] for name in lane.predecessors if ssp in ends[name]}
        if len(at) != 1:
            return None
        (found[ssp],) = at
    return found


class PrestartedQuery:
    """A query that was started in a lane's folder before the lane itself started.

    The query plans its first batch at the predicted start offsets, ``starting`` (by whole SSP). The query computes and
    publishes this batch only after it is known that the lane starts at these offsets.
    """

    def __init__(self, foreseen: PreanalyzedQuery, query: LaneQuery, folder: Folder, starting: Offsets) -> None:
        """``query`` is the query that the lane needs if it starts at ``starting``."""
        self.starting = starting
        self._foreseen = foreseen
        self._folder = folder
        self._known = query
        self._query: LaneQuery | None = None
        self._decided = threading.Event()
        folder.make()
        folder.lock()
        folder.begin_anew()
        folder.clear_leftovers(anew=True)
        folder.begin_at(query.begins)
        try:
            self._started = query.begin_ahead(self._written)
        except BaseException:
            folder.begin_anew()
            raise

    @property
    def has_failed(self) -> bool:
        return self._started.exception() is not None

    def begins_as(self, query: LaneQuery, starting: Offsets) -> bool:
        """Whether this query can be used in place of ``query``. True if both queries are the same, this query starts at
        the offsets ``starting``, and this query hasn't failed."""
        return self._foreseen.known(query) is not None and starting == self.starting and not self.has_failed

    def go_on(self, query: LaneQuery) -> StreamingQuery:
        """Continue as ``query`` and publish the results, because the lane starts as predicted."""
        self._query = query
        self._decided.set()
        return self._started

    def abandon(self) -> None:
        """End the query, and clear its folder, because the lane doesn't need the query."""
        self._decided.set()
        self._started.stop()
        self._folder.begin_anew()

    def _written(self, batch: DataFrame, number: int) -> None:
        planned = None
        if not self._decided.is_set():
            planned = self._known.planned_write(batch, number)
            crash_points.reach(crash_points.AHEAD, self._known.lane.id, number)
            self._decided.wait()
        if self._query is None:
            raise StateError("a query that was started before its lane began isn't needed", "nothing is lost")
        self._query.publish(batch, number, planned)


@dataclass(frozen=True)
class Handover:
    """What a lane's runner needs for the hand-over within the same container.

    Attributes:
        prestarted: the first call returns the lane's prestarted query, or None if there is none; later calls return
            None.
        is_awaited: returns whether a successor's query can be prestarted as soon as it is known where the lane ends.
        ends_at: must be called with the offsets at which the lane ends, by whole SSP, as soon as they are planned.
    """

    prestarted: Callable[[], PrestartedQuery | None] = lambda: None
    is_awaited: Callable[[], bool] = lambda: False
    ends_at: Callable[[Offsets], None] = lambda _: None


class Prestarter:
    """Starts the query of each upcoming lane in advance, if possible, as soon as the end offsets of all its
    predecessors are known. Thread-safe."""

    def __init__(self, begin: Callable[[Lane, Offsets], PrestartedQuery | None], can: Callable[[Lane], bool]) -> None:
        self._begin = begin
        self._can = can
        self._lock = threading.Lock()
        self._coming: tuple[Lane, ...] = ()
        self._ends: dict[str, Mapping[SSP, int]] = {}
        self._prestarts: dict[_Key, _Prestart] = {}
        self._abandoned: dict[_Key, threading.Thread] = {}

    def announce(self, coming: Iterable[Lane], wanted: Iterable[str]) -> None:
        """Replace the list of lanes that will start soon. The prestarted query of a lane that isn't in the new list is
        abandoned, unless the lane is now ``wanted``. Doesn't wait until this query has ended.
        """
        with self._lock:
            self._coming = tuple(coming)
            if not self._coming:
                self._ends.clear()
            needed = {*((lane.id, lane.epoch) for lane in self._coming)}
            mine = {*wanted}
            gone = [key for key in self._prestarts if key not in needed and key[0] not in mine]
            self._abandoned = {key: thread for key, thread in self._abandoned.items() if thread.is_alive()}
            self._abandoned |= {key: self._prestarts.pop(key).abandoned() for key in gone}

    def is_awaited(self, lane: str) -> bool:
        """Whether the query of a successor of this lane can be prestarted."""
        with self._lock:
            return any(lane in each.predecessors and self._can(each) for each in self._coming)

    def end_at(self, lane: str, ends: Mapping[SSP, int]) -> None:
        """Record the offsets at which a lane ends, by whole SSP. If the start offsets of successors are known as a
        result, prestart the queries of these successors."""
        with self._lock:
            self._ends[lane] = ends
            for each in self._coming:
                starting = begins(each, self._ends) if lane in each.predecessors else None
                key = (each.id, each.epoch)
                if starting is not None and key not in self._prestarts and key not in self._abandoned:
                    self._prestarts[key] = _Prestart(self._begin, each, starting)
                    self._prestarts[key].start()

    def take(self, lane: Lane) -> PrestartedQuery | None:
        """Hand out the prestarted query of a lane under its current epoch. Returns None if there is no such
        query, if the query couldn't be started, or if the query was handed out before. If the query is being abandoned,
        waits until the query has ended, because the query uses the lane's folder.
        """
        with self._lock:
            beginning = self._prestarts.pop((lane.id, lane.epoch), None)
            abandoned = self._abandoned.get((lane.id, lane.epoch))
        if abandoned is not None:
            abandoned.join()
        return None if beginning is None else beginning.result()

    def take_fitting(self, lane: Lane, wanted: Callable[[], tuple[LaneQuery, Offsets]]) -> PrestartedQuery | None:
        """Hand out the prestarted query of a lane, like :meth:`take`, if the query fits the lane. A query that doesn't
        fit is abandoned, and the result is None.

        Args:
            wanted: returns the query that the lane needs, and its start offsets. The prestarted query fits if it can be
                used in place of this query, and starts at these offsets. If ``wanted`` raises an error, the prestarted
                query is abandoned, and the error propagates to the caller. Not called if there is no prestarted
                query.
        """
        ahead = self.take(lane)
        if ahead is None:
            return None
        try:
            if ahead.begins_as(*wanted()):
                return ahead
        except Exception as error:
            try:
                ahead.abandon()
            except Exception as another:
                error.add_note(f"the query that was started ahead could not be cleaned up either: {another}")
            raise
        log.info("a lane starts in another way than was prepared", lane=lane.id)
        ahead.abandon()
        return None

    def end(self) -> None:
        """Abandon all prestarted queries, without waiting for them to end."""
        self.announce((), ())

    def join(self, timeout: float) -> bool:
        """Wait up to ``timeout`` seconds for all abandoned queries to end. Returns whether they have ended."""
        end = time.monotonic() + timeout
        with self._lock:
            abandoned = tuple(self._abandoned.values())
        for each in abandoned:
            each.join(max(0.0, end - time.monotonic()))
        return not any(each.is_alive() for each in abandoned)


class _Prestart(threading.Thread):
    def __init__(self, begin: Callable[[Lane, Offsets], PrestartedQuery | None], lane: Lane, starting: Offsets) -> None:
        super().__init__(name=f"begins {lane.id} ahead", daemon=True)
        self._begin = begin
        self._lane = lane
        self._starting = starting
        self._result: PrestartedQuery | None = None

    def run(self) -> None:
        try:
            self._result = self._begin(self._lane, self._starting)
        except Exception as error:
            log.info("an upcoming lane isn't started ahead", lane=self._lane.id, error=str(error))

    def result(self) -> PrestartedQuery | None:
        self.join()
        return self._result

    def abandoned(self) -> threading.Thread:
        """Start a thread that waits until the query has started, and then abandons the query. Returns the thread. The
        query's start can take as long as the storage and the brokers need to answer."""
        thread = threading.Thread(target=self._abandon, name=f"abandons {self._lane.id}", daemon=True)
        thread.start()
        return thread

    def _abandon(self) -> None:
        """Abandon the query once it is started. Errors are only logged: no lane needs the query, and a lane that gets
        the query's folder clears the folder first."""
        begun = self.result()
        try:
            if begun is not None:
                begun.abandon()
        except Exception as error:
            log.warning("a query that was started ahead could not be cleaned up", lane=self._lane.id, error=str(error))
