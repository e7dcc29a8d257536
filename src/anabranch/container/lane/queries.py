"""Makes and starts a lane's queries. A query either runs only a single batch or keeps running. A query that keeps
running can be prestarted."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial

from pyspark.sql.streaming.query import StreamingQuery

from anabranch import logs
from anabranch.container import query_starts
from anabranch.container.checkpoint import edits
from anabranch.container.lane import breaking_off
from anabranch.container.lane.attempt import POLL, Attempt
from anabranch.container.lane.batch_shrinker import BatchShrinker
from anabranch.container.lane.handover import PrestartedQuery
from anabranch.container.lane.monitor import Monitor
from anabranch.container.lane.upkeep import Upkeep
from anabranch.event_time.progress import Progress
from anabranch.model.ssp import texts
from anabranch.protocol.lane_report import LanePhase
from anabranch.spark.internals import stop_at_batch
from anabranch.spark.query.query import LaneQuery

__all__ = ["Queries"]

log = logs.get_logger()


class Queries:
    """Makes and starts the queries of a lane. Used by the lane's own thread.

    Args:
        outputs_taken: returns whether this process took over the lane's outputs when it prepared the lane.
    """

    def __init__(
        self,
        attempt: Attempt,
        monitor: Monitor,
        upkeep: Upkeep,
        shrinker: BatchShrinker,
        outputs_taken: Callable[[], bool],
    ) -> None:
        self.prestarted: PrestartedQuery | None = None
        """The lane's prestarted query; None if there is none, or once it has been continued or abandoned."""
        self.pending_at_start = -1
        """The batch that was pending when the current query was started; -1 for none."""
        self._attempt = attempt
        self._monitor = monitor
        self._upkeep = upkeep
        self._shrinker = shrinker
        self._outputs_taken = outputs_taken
        self._analysis: threading.Thread | None = None
        self._analyzed: LaneQuery | None = None

    def begin_analysis(self) -> None:
        """Start Spark's analysis of the query in the background. Errors are raised only when the query starts."""

        def analyze() -> None:
            with suppress(Exception):
                query = self._attempt.build_query()
                query.analyze()
                self._analyzed = query

        self._analysis = threading.Thread(target=analyze, name=f"analyzes {self._attempt.lane.id}", daemon=True)
        self._analysis.start()

    def end_analysis(self) -> None:
        """If the analysis was started, wait for it to end."""
        if self._analysis is not None:
            self._analysis.join()

    def abandon_prestarted(self) -> None:
        prestarted, self.prestarted = self.prestarted, None
        if prestarted is not None:
            prestarted.abandon()

    def make(self) -> LaneQuery:
        """Make the query for the current content of the folder. A pending batch is corrected if necessary. If the clock
        was set back before the batch was planned, the batch gets a later processing time. If the batch took too long
        when it last ran, the batch is planned again with fewer records, if possible.
        """
        query = self._made()
        self.mend_time(query)
        self._shrinker.shrink(query)
        return query

    def mend_time(self, query: LaneQuery) -> None:
        folder = self._attempt.folder
        if folder.pending and query.outputs.out_of_time(folder.batch(folder.planned())):
            log.warning("a batch was planned before the last one: the clock was set back", lane=self._attempt.lane.id)
            edits.mend_time(folder)

    def start(self) -> StreamingQuery:
        """Start a query that keeps running, or continue with the prestarted query."""
        if self.prestarted is not None:
            return self._go_on_prestarted()
        attempt, folder = self._attempt, self._attempt.folder
        query = self.make()
        last, pending = folder.planned(), folder.pending
        self.pending_at_start = last if pending else -1
        batch = folder.batch(last) if last >= 0 else None
        self._monitor.carry_idle(last, query.job.settings.job.idle_seconds)
        taken = last < attempt.lane.first_batch and attempt.started is None and self._outputs_taken()
        attempt.reporter.update(begun=True)
        if not taken and not query.plan.real_time:
            query.take(batch)  # before other lanes have to wait for this one
        with query_starts.shared.place() as until_started:
            started = query.start(last=batch, pending=pending, taken=True)
            until_started(started)
        return self._runs(query, started)

    def take_outputs(self) -> None:
        """Take over the lane's outputs for the current query. This is necessary even if an earlier query of this
        attempt has done so: the slots may have been closed since then, to plan a batch again with fewer rows, and the
        current query doesn't know the counts in the markers yet."""
        attempt, last = self._attempt, self._attempt.folder.planned()
        attempt.current.take(attempt.folder.batch(last) if last >= 0 else None)

    def run_planned(self) -> None:
        """Run the planned batch, and no other. If everything must end at once, the batch stays pending. Call this only
        after :meth:`take_outputs`."""
        attempt = self._attempt
        last = attempt.folder.batch(attempt.folder.planned())
        attempt.reporter.update(begun=True, halted="")
        started = attempt.started = attempt.current.start(once=True, last=last, pending=True, taken=True)
        # The last batch's progress isn't checked, because emitting much state takes a long time and isn't visible.
        self.await_batch(started, partial(self._monitor.take_progress if last.drains else self._upkeep.look, started))

    def await_batch(self, started: StreamingQuery, turn: Callable[[], None]) -> None:
        """Wait until a query has run its only batch, and call ``turn`` repeatedly meanwhile. If everything must end at
        once, the query is stopped, and the batch stays pending."""
        while not started.awaitTermination(1):
            if self._attempt.life.leaves_at_once():
                started.stop()
                self._attempt.current.workers.cancel(str(started.runId))
                return
            turn()
        self._monitor.take_progress(started)

    def begin_with_nothing(self) -> None:
        """Run a lane's first batch without reading any records. Other batches can be planned only after a first batch.
        If the query plans another batch before it is stopped, this batch is also run. If everything must end at once,
        the query is stopped, and a planned batch stays pending."""
        attempt, query, hurry = self._attempt, self._attempt.current, self._attempt.life.leaves_at_once
        attempt.reporter.update(begun=True, halted="")
        started = attempt.started = replace(query, nothing=True).start()
        turn = self._upkeep.check_progress
        while attempt.folder.committed() < 0 and started.isActive and not hurry():
            turn()
            attempt.life.pause(POLL)
        stop_at_batch.end(attempt.lane_folders.spark, started, query.writing.is_set, turn, hurry)
        if hurry():
            return
        failed = started.exception()
        if failed is not None:
            raise failed
        if attempt.folder.pending:
            self.run_planned()

    def _made(self) -> LaneQuery:
        self._attempt.folder_in_use = self._attempt.folder
        query, self._analyzed = self._analyzed or self._attempt.build_query(), None
        return self._attempt.use(query)

    def _go_on_prestarted(self) -> StreamingQuery:
        prestarted = self.prestarted
        assert prestarted is not None
        query = self._made()
        self._monitor.carry_idle(-1, query.job.settings.job.idle_seconds)
        self._attempt.reporter.update(begun=True)
        log.debug("a lane continues with a query that was started ahead", lane=self._attempt.lane.id)
        started = prestarted.go_on(query)
        self.prestarted = None  # only now: if an error came before, the query must be abandoned
        return self._runs(query, started)

    def _runs(self, query: LaneQuery, started: StreamingQuery) -> StreamingQuery:
        attempt = self._attempt
        attempt.started = started
        breaking_off.runs(attempt.folder, query.writing)
        attempt.reporter.update(
            phase=LanePhase.RUNNING,
            batch=attempt.folder.committed(),
            positions=texts(attempt.positions()),
            run=str(started.runId),
            limit=0 if query.plan.real_time else query.pacer.limit,
            sequential=query.plan.sequential,
            repeats=query.outputs.repeats,
            slots=query.outputs.slots,
        )
        if not query.sources.has_event_time:
            self._monitor.note_time(Progress())
        self._upkeep.sample(query)
        return started
