"""Performs the actions of a lane's life."""

from __future__ import annotations

import threading
from collections.abc import Callable

from pyspark.sql.streaming.query import StreamingQuery

from anabranch import logs
from anabranch.container import error_text
from anabranch.container.checkpoint.lane_folders import LaneFolders
from anabranch.container.error_text import Failure, Remedy
from anabranch.container.lane import actions, error_attribution, events
from anabranch.container.lane.actions import Action
from anabranch.container.lane.attempt import POLL, Attempt, Build, Offsets
from anabranch.container.lane.batch_shrinker import BatchShrinker
from anabranch.container.lane.boundary import Boundary
from anabranch.container.lane.breaking_off import BRIEF
from anabranch.container.lane.catching_up import has_caught_up
from anabranch.container.lane.drain import LaneDrain, raise_if_ended
from anabranch.container.lane.events import Event
from anabranch.container.lane.handover import Handover
from anabranch.container.lane.life import Life
from anabranch.container.lane.lifecycle import Phase
from anabranch.container.lane.monitor import Monitor
from anabranch.container.lane.queries import Queries
from anabranch.container.lane.reporting import Reporter
from anabranch.container.lane.upkeep import Upkeep
from anabranch.container.retries import Standstill
from anabranch.event_time.progress import Progress
from anabranch.model.lane import Lane
from anabranch.model.ssp import SSP, parsed, texts
from anabranch.protocol.drain import DrainOrder
from anabranch.protocol.lane_report import LanePhase, LaneReport
from anabranch.spark import root_cause
from anabranch.spark.functions import isolation
from anabranch.spark.query import clock
from anabranch.spark.query.query import LaneQuery

__all__ = ["LaneRunner", "Trace", "logged"]

log = logs.get_logger()

_ALONE = Handover()

Trace = Callable[[str, BaseException], None]
"""Called with the id of a lane, and the error with which the lane failed."""


def logged(lane: str, error: BaseException) -> None:
    """Write the trace of a failure to the log."""
    log.debug("a lane failed", lane=lane, trace=root_cause.text_of(error))


class LaneRunner:
    """Runs one attempt of a lane in a separate thread, and maintains the lane's report.

    Args:
        epoch: the lane's current epoch.
        build: creates a query of the lane.
        starting: looks up the lane's start offsets, by whole SSP. It is called in the lane's own thread.
        until: looks up the offsets at which the lane ends, by whole SSP. It is called in the lane's own thread. Returns
            None if the lane keeps running. See :meth:`QueryBuilder.until
            <anabranch.container.lane.building.QueryBuilder.until>`.
        standstill: decides when the lane must fail because it makes no progress.
        taken: returns whether this process took over the lane's outputs when it prepared the lane.
        wake: called when the report contains news that the container or the coordinator is waiting for.
        drained: called once the lane has drained.
        handover: what the runner needs for the hand-over within this container; by default, there is none.
        trace: records the details of the error that made the lane fail.
        life: the lane's state in this container, which all attempts here share; by default, a new one.

    Attributes:
        remedy: what may help, once the lane has failed.
        awaits: what the failed lane waits for; empty if it doesn't wait.
    """

    def __init__(
        self,
        lane_folders: LaneFolders,
        lane: Lane,
        epoch: int,
        build: Build,
        starting: Callable[[], Offsets],
        until: Callable[[], Offsets] | None,
        standstill: Standstill,
        taken: Callable[[], bool] = lambda: False,
        wake: Callable[[], None] = lambda: None,
        drained: Callable[[Lane], None] = lambda _: None,
        handover: Handover = _ALONE,
        trace: Trace = logged,
        life: Life | None = None,
    ) -> None:
        self.lane = lane
        self.life = life or Life(lane)
        self.remedy = Remedy.ATTEMPT
        self.awaits = ""
        self._outputs_taken = taken
        self._trace = trace
        reporter = Reporter(lane, wake, self.life.state.attempt)

        def offsets() -> tuple[Offsets, Offsets | None]:
            return starting(), None if until is None else until()

        self._offsets = offsets
        ends = None if until is None else Offsets()
        self._attempt = Attempt(lane_folders, lane, epoch, build, {}, ends, self.life, reporter, handover)
        self._monitor = Monitor(self._attempt)
        self._upkeep = Upkeep(self._attempt, self._monitor, standstill)
        self._shrinker = BatchShrinker(self._attempt)
        self._queries = Queries(self._attempt, self._monitor, self._upkeep, self._shrinker, taken)
        self._boundary = Boundary(self._attempt, self._monitor, self._upkeep, self._queries)
        self._drain = LaneDrain(self._attempt, self._monitor, self._upkeep, self._queries, self._boundary, drained)
        self._thread = threading.Thread(target=self._run, name=f"lane {lane.id}", daemon=True)

    @property
    def report(self) -> LaneReport:
        return self._attempt.report

    @property
    def query(self) -> LaneQuery | None:
        """The query that was made last; None if no query has been made."""
        return self._attempt.query

    @property
    def committed_before(self) -> int:
        """The last batch that was committed before this attempt; -1 if none is known."""
        return self._monitor.committed_before

    @property
    def stalled(self) -> bool:
        """Whether the lane failed because it made no progress."""
        return self._upkeep.stalled

    def start(self) -> None:
        self._thread.start()

    def stop(self, at_once: bool = False) -> None:
        """End the lane at the next batch boundary, or by breaking off a long batch. If ``at_once`` is True, end the
        lane immediately. A batch that was broken off stays pending, for the lane's next attempt."""
        self.life.tell(events.Leave(unwanted=True, at_once=at_once))

    def prepare_to_close(self) -> None:
        """Make further batches brief, because the lane will close once its successors are prepared."""
        query = self.query
        if query is not None and self.life.state.has_query and not query.plan.real_time:
            query.pacer.shorten(BRIEF)

    def close(self, now: bool = False) -> None:
        """End the lane, so that its successors can continue where it ends. The running batch is either finished, or
        broken off and forgotten. If ``now`` is True, the lane doesn't wait for work that successors can repeat.
        """
        self.life.tell(events.Close(now))

    def drain(self, order: DrainOrder | None) -> None:
        """Drain as ordered, or continue as before if ``order`` is None."""
        self.life.tell(events.Drain(order))

    def acknowledge(self, upstream_ended: bool) -> None:
        """Record that the coordinator knows the lane's folder, so that a query can start. ``upstream_ended`` is
        True if all lanes that write the lane's inputs have ended.
        """
        self.life.tell(events.Acknowledge(upstream_ended))

    def join(self, timeout: float) -> bool:
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        lane = self._attempt.lane
        logs.bind(job=lane.job, lane=lane.id, epoch=self._attempt.epoch)
        result: Event | None = events.AttemptStarted()
        while result is not None:
            try:
                result = self._perform_all(self.life.tell(result))
            except BaseException as error:  # a bug in anabranch: without this, the lane would hang forever
                log.error("a lane's thread failed", lane=lane.id, trace=root_cause.text_of(error))
                result = None if self.life.state.ended else events.AttemptFailed(error)

    def _perform_all(self, due: tuple[Action, ...]) -> Event | None:
        result: Event | None = None
        for action in due:
            if isinstance(action, actions.FailLane):
                return self._fail(action.error)
            try:
                result = self._perform(action)
                self._look_up_sources()
            except BaseException as error:  # the job's functions can raise SystemExit
                return self._failed(error)
        return result

    def _perform(self, action: Action) -> Event | None:
        match action:
            case actions.TakeFolder():
                return self._take_folder()
            case actions.AwaitAcknowledgement():
                return self._await_acknowledgement()
            case actions.AbandonPrestarted():
                self._queries.abandon_prestarted()
            case actions.StartQuery():
                self._queries.start()
                return events.QueryStarted()
            case actions.WatchQuery():
                return self._watch()
            case actions.TendQuery():
                self._tend()
            case actions.DrainHeld():
                return events.DrainEnded(self._drain.by_holding(self._started))
            case actions.DrainByBatches():
                return events.DrainEnded(self._drain.by_batches())
            case actions.StopQuery():
                self._boundary.reach(self._started)
                return events.QueryStopped()
            case actions.FinishPending():
                self._boundary.finish()
                return events.PendingFinished()
            case actions.EndLane(has_begun):
                return self._end(has_begun=has_begun)
            case actions.Announce():
                self._announce()
        return None

    @property
    def _started(self) -> StreamingQuery:
        assert self._attempt.started is not None
        return self._attempt.started

    def _take_folder(self) -> Event:
        attempt, prestarted = self._attempt, self._attempt.handover.prestarted()
        self._queries.prestarted = prestarted
        attempt.starting, attempt.until = self._offsets()  # this fails if the inputs can't be reached
        folder = attempt.lane_folders.folder(
            self.lane, attempt.epoch, self.life.leaves, self._outputs_taken(), prestarted is not None
        )
        attempt.take_folder(folder)
        self._monitor.committed_before = folder.committed()
        attempt.lane_folders.note_used(folder)
        return events.FolderTaken(self.life.state.folder_epoch or attempt.epoch)

    def _await_acknowledgement(self) -> Event:
        self._attempt.reporter.update(folder_epoch=self.life.state.folder_epoch)
        self._queries.begin_analysis()
        if self._queries.prestarted is None:
            self._attempt.inputs.take(self._attempt.folder)
        self._monitor.outputs.compare(self._attempt.folder)
        self.life.await_acknowledgement()
        if self.life.state.acknowledged:
            self._queries.end_analysis()
        return events.AcknowledgementAwaited()

    def _look_up_sources(self) -> None:
        if self.life.state.needs_sources and self._drain.reads_sources:
            self.life.tell(events.SourcesLookedUp(reads_sources=True))

    def _watch(self) -> Event:
        self._monitor.take_progress(self._started)
        caught_up = not self.life.stops() and has_caught_up(self._attempt)
        if not (caught_up or self.life.stops()):
            raise_if_ended(self.lane.id, self._started)
        return events.QueryWatched(caught_up, self._drain.holdable)

    def _tend(self) -> None:
        self._upkeep.check_progress()
        slow = self._shrinker.outlasting()
        if slow is not None and self._shrinker.break_off(self._started, slow):
            self._queries.start()
        self._upkeep.turn()
        self.life.pause(POLL)

    def _end(self, *, has_begun: bool) -> Event:
        attempt, life, query = self._attempt, self.life, self._attempt.query
        closes, folder, reporter = life.closes(), attempt.folder, attempt.reporter
        if query is not None and not life.state.drained:  # the drain has settled the outputs already
            if not closes or query.plan.own & self.lane.outputs.keys():
                query.outputs.settle()
            else:
                query.outputs.leave_tables()
        if has_begun and not folder.pending:
            self._note_time()
        clock.forget(attempt.clock)
        self._monitor.note_batch_size(ends=True)
        self._monitor.outputs.note(folder, folder.committed(), last=True)
        positions = attempt.positions()
        pending = folder.pending or not has_begun
        if query is not None and (query.plan.real_time or self.lane.stateful):
            query.checkpoint_sync.sync()  # no batch follows that would do so, and the store relies on the report
        folder.release()
        reporter.conclude(
            LanePhase.ENDED,
            waits="",
            positions=texts(positions),
            batch=folder.committed(),
            ends=self._monitor.ends.now(fresh=not life.closes()),
            dead_letters=self._monitor.dead_letters(),
            dropped=attempt.counts.dropped,
            stopped=(attempt.until is not None or life.drain() is not None) and life.stops(),
            pending=pending,
            wrote=self._wrote(),
        )
        return events.LaneEnded()

    def _note_time(self) -> None:
        """Store the lane's event time, from which its successors start. If no batch of this attempt has ended, the
        event time is determined from the last batch of an earlier attempt."""
        attempt, query = self._attempt, self._attempt.query
        time = clock.read(attempt.clock)
        if time is None and self._monitor.time_noted:
            return
        if time is None and query is not None and not query.plan.real_time:
            last = attempt.folder.planned()
            query.outputs.time.begin(attempt.folder.batch(last) if last >= 0 else None, pending=False)
            time = clock.read(attempt.clock)
        self._monitor.note_time(Progress() if time is None else time.progress)

    def _announce(self) -> None:
        """Announce the last report. If the lane hasn't failed, also commit its positions to the inputs' systems, for
        tools that show lag."""
        self._attempt.reporter.wake()
        self._queries.end_analysis()
        if self.life.state.phase is Phase.ENDED:
            self._monitor.positions.finish()
            self._attempt.inputs.tell(parsed(self.report.progress.positions))  # successors may already continue

    def _wrote(self) -> dict[str, int]:
        """The end offsets of the intermediate streams that the lane writes; {} if their readers needn't know that the
        lane has ended."""
        attempt, query = self._attempt, self._attempt.query
        if query is None or not (self.life.closes() or attempt.until is not None or self.life.state.drained):
            return {}
        wrote: dict[str, int] = {}
        for stream in sorted(query.plan.own & self.lane.outputs.keys()):
            name = self.lane.system(stream)
            ends = attempt.lane_folders.systems.named(name).high_watermarks(stream)
            wrote |= texts({SSP(system=name, stream=stream, partition=p): end for p, end in ends.items()})
        return wrote

    def _failed(self, error: BaseException) -> Event:
        try:
            smaller = self.life.state.has_query and self._shrinker.goes_on_smaller(error)
            if smaller:
                self._look_up_sources()
            return events.AttemptFailed(error, smaller=smaller)
        except Exception as another:
            return events.AttemptFailed(another)

    def _fail(self, error: BaseException) -> Event:
        """Clean up after the error that made the attempt fail, and report the error. The report is made even if parts
        of the cleanup fail."""
        attempt = self._attempt
        self._quietly(self._queries.end_analysis)
        if attempt.started is not None:
            self._quietly(attempt.started.stop)  # the query may still be running, and change the folder
        failed = self._explained(error)
        self.remedy, self.awaits = failed.remedy, failed.awaits
        self._quietly(isolation.note, self.lane.id, error)
        self._quietly(self._trace, self.lane.id, error)  # perhaps the log can't be written
        self._quietly(self._queries.abandon_prestarted)  # what the query leaves in the folder is correct
        self._quietly(clock.forget, attempt.clock)
        attempt.reporter.conclude(LanePhase.FAILED, error=failed.told, fenced=error_text.is_fenced(error))
        return events.FailureReported()

    def _explained(self, error: BaseException) -> Failure:
        try:
            return error_attribution.attributed(self._attempt, error)
        except Exception as another:
            log.error("it can't be determined why a lane failed", lane=self.lane.id, trace=root_cause.text_of(another))
            return error_text.failure(error)

    def _quietly(self, act: Callable[..., object], *args: object) -> None:
        """Call a function whose errors must not keep the lane from reporting its failure."""
        try:
            act(*args)
        except Exception as error:
            log.warning("a failed lane leaves something behind", lane=self.lane.id, error=str(error))
