"""One lane in this container: takes its folder, runs its query, and ends it at a batch boundary."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from time import monotonic

from pyspark.sql.streaming.query import StreamingQuery

from anabranch import logs
from anabranch.container import failures, root_cause
from anabranch.container.ahead import Handover
from anabranch.container.attempts import Standstill
from anabranch.container.failures import Remedy
from anabranch.container.lane import error_attribution
from anabranch.container.lane.attempt import POLL, Attempt, Build, Offsets
from anabranch.container.lane.batch_sizes import BatchSizes
from anabranch.container.lane.boundary import Boundary
from anabranch.container.lane.catching_up import has_caught_up
from anabranch.container.lane.drain import LaneDrain, raise_if_ended
from anabranch.container.lane.monitor import Monitor
from anabranch.container.lane.orders import Orders
from anabranch.container.lane.queries import Queries
from anabranch.container.lane.reporting import Reporter
from anabranch.container.lane.upkeep import Upkeep
from anabranch.container.place import Place
from anabranch.event_time.progress import Progress
from anabranch.messages import Draining, LaneReport
from anabranch.model.lane import Lane
from anabranch.model.ssp import SSP, texts
from anabranch.spark import clock, isolation
from anabranch.spark.query import LaneQuery

__all__ = ["LaneRunner", "Trace", "logged"]

log = logs.get_logger()

_ALONE = Handover()

Trace = Callable[[str, BaseException], None]
"""Takes the id of a lane, and what it failed for."""


def logged(lane: str, error: BaseException) -> None:
    """The trace of a failure goes into the log, for those who look closer."""
    log.debug("a lane failed", lane=lane, trace=root_cause.text_of(error))


class LaneRunner:
    """Runs one lane in a thread of its own and keeps a report of it.

    ``build`` makes the query for a folder. ``until``: the noted ends of its inputs, None to run on. ``standstill`` says
    when it has to fail for it goes on no more. ``remedy``: what may help if it has failed. ``taken``: whether the
    outputs of a new lane were taken for it. ``wake`` is called when there is something in its report that others wait
    for, ``drained`` when the lane has drained; ``trace`` with what it failed for, to keep all that is known of it.
    """

    def __init__(
        self,
        place: Place,
        lane: Lane,
        epoch: int,
        build: Build,
        starting: Offsets,
        until: Offsets | None,
        standstill: Standstill,
        taken: Callable[[], bool] = lambda: False,
        wake: Callable[[], None] = lambda: None,
        drained: Callable[[Lane], None] = lambda _: None,
        handover: Handover = _ALONE,
        trace: Trace = logged,
    ) -> None:
        self.lane = lane
        self.remedy = Remedy.ATTEMPT
        self._outputs_taken = taken
        self._trace = trace
        self._orders = Orders()
        reporter = Reporter(lane, wake)
        self._attempt = Attempt(place, lane, epoch, build, starting, until, self._orders, reporter, handover)
        self._monitor = Monitor(self._attempt)
        self._upkeep = Upkeep(self._attempt, self._monitor, standstill)
        self._sizes = BatchSizes(self._attempt)
        self._queries = Queries(self._attempt, self._monitor, self._upkeep, self._sizes, taken)
        self._boundary = Boundary(self._attempt, self._monitor, self._upkeep, self._queries)
        self._drain = LaneDrain(self._attempt, self._monitor, self._upkeep, self._queries, self._boundary, drained)
        self._thread = threading.Thread(target=self._run, name=f"lane {lane.id}", daemon=True)

    @property
    def report(self) -> LaneReport:
        return self._attempt.report

    @property
    def query(self) -> LaneQuery | None:
        """The query that was made last."""
        return self._attempt.query

    @property
    def ended(self) -> bool:
        return self._attempt.reporter.ended

    @property
    def stalled(self) -> bool:
        """Whether it failed for it stood still."""
        return self._upkeep.stalled

    def start(self) -> None:
        self._monitor.began = monotonic()
        self._thread.start()

    def stop(self, at_once: bool = False) -> None:
        """End at the next batch boundary; or at once: who goes on finishes the batch."""
        self._orders.stop(at_once)

    def close(self, now: bool = False) -> None:
        """Finish what was begun, or take it back, and end at a batch boundary: others go on from there. ``now``: don't
        wait for what can be done again."""
        self._orders.close(now)

    def drain(self, order: Draining | None) -> None:
        """Drain so; None: go on as before."""
        self._orders.drain_by(order)

    def acknowledge(self, upstream_ended: bool) -> None:
        """The coordinator knows the lane's folder: only now may its query begin."""
        self._orders.acknowledge(upstream_ended)

    def join(self, timeout: float) -> bool:
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._take_folder()
            if self._await_acknowledgement():
                self._run_queries()
        except Exception as error:
            self._fail(error)

    def _take_folder(self) -> None:
        attempt, prestarted = self._attempt, self._attempt.handover.begun()
        self._queries.prestarted = prestarted
        folder = attempt.place.folder(
            self.lane, attempt.epoch, self._orders.leaves.is_set, self._outputs_taken(), prestarted is not None
        )
        attempt.take_folder(folder)
        attempt.reporter.update(folder_epoch=attempt.reporter.current.folder_epoch or attempt.epoch)

    def _await_acknowledgement(self) -> bool:
        """Wait until the coordinator knows the folder; False: the lane had to leave before, and has ended."""
        with self._queries.analyzing():
            if self._queries.prestarted is None:
                self._attempt.inputs.take(self._attempt.folder)
            while not self._orders.folder_known.wait(POLL):
                if self._orders.leaves.is_set():
                    self._queries.abandon_prestarted()
                    self._end(has_begun=False)
                    return False
        return True

    def _run_queries(self) -> None:
        while not self._orders.closes.is_set() or self._attempt.started is not None:
            if self._drains():
                self._queries.abandon_prestarted()
                if self._drain.by_batches() or self._orders.stops.is_set():
                    break
                continue
            started = self._queries.start()
            try:
                drained = self._watch(started)
            except Exception as error:
                if not self._sizes.goes_on_smaller(error):
                    raise
            else:
                if drained or self._orders.stops.is_set() or not self._drains():
                    break
        else:
            self._queries.abandon_prestarted()
            self._boundary.finish()
        self._end()

    def _drains(self) -> bool:
        """Whether it takes in no more by itself: at once, if it reads what the job doesn't write itself; else once all
        that write its inputs have ended."""
        if self._orders.drain is None:
            return False
        return self._drain.reads_sources or self._orders.upstream_ended.is_set()

    def _watch(self, started: StreamingQuery) -> bool:
        """Until the query has ended; gives whether the lane has drained."""
        while True:
            self._monitor.take_progress(started)
            if self._orders.stops.is_set() or has_caught_up(self._attempt):
                break
            raise_if_ended(self.lane.id, started)
            if self._drains():
                if not self._drain.holdable:
                    break
                if self._drain.by_holding(started):
                    return True
                continue
            self._upkeep.check_progress()
            slow = self._sizes.outlasting()
            if slow is not None and self._sizes.break_off(started, slow):
                started = self._queries.start()
            self._upkeep.turn()
            self._orders.pause(POLL)
        self._boundary.reach(started)
        return False

    def _end(self, *, has_begun: bool = True) -> None:
        """``has_begun`` False: whoever is next does what was to be done."""
        attempt, orders, query = self._attempt, self._orders, self._attempt.query
        closes, folder, reporter = orders.closes.is_set(), attempt.folder, attempt.reporter
        if (
            query is not None
            and not reporter.current.drained  # that has settled already
            and (not closes or query.own & self.lane.outputs.keys())
        ):
            query.settle()
        time = clock.read(attempt.clock)
        if has_begun and not (time is None and self._monitor.time_noted) and not folder.pending:
            self._monitor.note_time(Progress() if time is None else time.progress)
        clock.forget(attempt.clock)
        self._monitor.note_speed(ends=True)
        positions = attempt.positions()
        reporter.update(
            phase="ended",
            waits="",
            positions=texts(positions),
            batch=folder.committed(),
            ends=self._monitor.ends.now(fresh=not orders.closes.is_set()),
            dead_letters=self._monitor.dead_letters(),
            dropped=attempt.counts.dropped,
            stopped=(attempt.until is not None or orders.drain is not None) and orders.stops.is_set(),
            pending=folder.pending or not has_begun,
            wrote=self._wrote(),
        )
        attempt.inputs.tell(positions)  # others may go on from it meanwhile

    def _wrote(self) -> dict[str, int]:
        """Where the streams between stages end that the lane writes, if others may go on from it."""
        attempt, query = self._attempt, self._attempt.query
        drained = attempt.reporter.current.drained
        if query is None or not (self._orders.closes.is_set() or attempt.until is not None or drained):
            return {}
        wrote: dict[str, int] = {}
        for stream in sorted(query.own & self.lane.outputs.keys()):
            name = self.lane.system(stream)
            ends = attempt.place.systems.named(name).high_watermarks(stream)
            wrote |= texts({SSP(system=name, stream=stream, partition=p): end for p, end in ends.items()})
        return wrote

    def _fail(self, error: Exception) -> None:
        failed = error_attribution.attributed(self._attempt, error)
        self.remedy = failed.remedy
        isolation.note(self.lane.id, error)
        with suppress(Exception):  # nobody may be there to read it, or the disk may be full
            self._trace(self.lane.id, error)
        with suppress(Exception):  # what it leaves is right: the lane begins there
            self._queries.abandon_prestarted()
        if self._attempt.started is not None:
            self._attempt.started.stop()  # what failed may be ours, and not the query
        clock.forget(self._attempt.clock)
        self._attempt.reporter.update(phase="failed", error=failed.told, fenced=failures.is_fenced(error))
