"""Drains a lane. If the running query can be held, this query runs the drain's batches. Otherwise, each batch gets a
separate query."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from anabranch import logs
from anabranch.container.lane.attempt import POLL, Attempt
from anabranch.container.lane.boundary import Boundary
from anabranch.container.lane.drain_batches import Drain, Outcome
from anabranch.container.lane.monitor import Monitor
from anabranch.container.lane.queries import Queries
from anabranch.container.lane.upkeep import Upkeep
from anabranch.errors import StateError
from anabranch.model.lane import Lane
from anabranch.model.ssp import texts
from anabranch.protocol.lane_report import LanePhase
from anabranch.spark.internals import query_hold
from anabranch.spark.internals.query_hold import HeldQuery, NotHeldError
from anabranch.spark.query import clock

__all__ = ["LaneDrain", "raise_if_ended"]

log = logs.get_logger()


class _HurryError(Exception):
    """Raised if everything that is running must be broken off."""


def raise_if_ended(lane: str, query: StreamingQuery) -> None:
    """If a query has ended, raise the error that ended the query. If it has ended without an error, raise
    StateError."""
    if not query.isActive:
        error = query.exception()
        raise error if error is not None else StateError(f"the query of lane {lane} ended by itself", "")


class LaneDrain:
    """Drains a lane. Used by the lane's own thread. :meth:`by_batches` and :meth:`by_holding` return whether the lane
    has drained. A lane hasn't drained if the drain was cancelled, if the lane had to end early, or if the
    running query couldn't be held.
    """

    def __init__(
        self,
        attempt: Attempt,
        monitor: Monitor,
        upkeep: Upkeep,
        queries: Queries,
        boundary: Boundary,
        drained: Callable[[Lane], None],
    ) -> None:
        self._attempt = attempt
        self._life = attempt.life
        self._monitor = monitor
        self._upkeep = upkeep
        self._queries = queries
        self._boundary = boundary
        self._drained = drained
        self._could_not_hold = False

    @property
    def holdable(self) -> bool:
        """Whether the running query can be held. If not, the lane drains after the query has ended."""
        query = self._attempt.query
        if query is None or not query.holdable or self._could_not_hold:
            return False
        return query_hold.SURFACE.works(self._attempt.lane_folders.spark)

    @property
    def reads_sources(self) -> bool:
        """Whether the lane reads streams that the job doesn't write itself. Such a lane starts to drain at once. Any
        other lane starts once all writers of its inputs have ended."""
        if self._attempt.query is None:
            self._attempt.query = self._attempt.build_query()
        own = self._attempt.query.plan.own
        return any(ssp.stream not in own for ssp in self._attempt.inputs.ssps)

    def by_batches(self) -> bool:
        """Drain with a separate query for each planned batch. Call this only if no query of the lane is running."""
        self._queries.make()
        self._queries.take_outputs()  # before the lane reports that it runs, which the store takes as having markers
        run = self._queries.run_planned
        begin = self._queries.begin_with_nothing
        return self._settled(self._drain(run=run, begin=begin, end=run, pause=self._pause)())

    def by_holding(self, started: StreamingQuery) -> bool:
        """Drain with the running query. Once the lane has drained, the query ends."""

        def look() -> None:
            if self._life.leaves_at_once():
                raise _HurryError
            self._monitor.take_progress(started)  # first: a query that has failed may have committed a batch before
            raise_if_ended(self._attempt.lane.id, started)

        def turn() -> None:
            look()
            self._upkeep.check_progress()

        def pause(seconds: float) -> None:
            look()
            self._pause(seconds)

        def end() -> None:
            writing = self._attempt.current.writing
            hold.go(lambda: writing.wait(POLL) or not self._attempt.folder.pending)
            # The last batch's progress isn't checked, because emitting much state takes a long time and isn't visible.
            self._boundary.reach(started, partial(self._monitor.take_progress, started))

        outcome = Outcome(drained=False)
        try:
            with suppress(_HurryError), closing(self._hold(started, turn)) as hold:
                outcome = self._drain(run=hold.run, begin=hold.begin, end=end, pause=pause)()
                if not outcome.drained and not self._life.stops():
                    hold.release()
        except NotHeldError as error:
            log.warning("a query can't be held, and is stopped instead", lane=self._attempt.lane.id, error=error.what)
            self._could_not_hold = True
            return False
        if outcome.drained:
            self._boundary.reach(started)
        return self._settled(outcome)

    def _pause(self, seconds: float) -> None:
        self._upkeep.stand_by()
        self._life.pause(seconds)

    def _hold(self, started: StreamingQuery, turn: Callable[[], None]) -> HeldQuery:
        return HeldQuery(self._attempt.lane_folders.spark, started, turn, self._attempt.current.pacer.limits(started))

    def _drain(self, **ways: Any) -> Drain:
        attempt, life = self._attempt, self._life
        return Drain(
            folder=attempt.folder,
            query=attempt.current,
            clock=attempt.clock,
            systems=attempt.lane_folders.systems,
            ssps=attempt.inputs.ssps,
            starting=attempt.starting,
            wanted=life.drain,
            upstream_ended=life.upstream_ended,
            leaving=life.stops,
            tell=self._tell_halted,
            now=clock.unix_ms,
            **ways,
        )

    def _settled(self, outcome: Outcome) -> bool:
        if outcome.drained:
            self._attempt.current.outputs.settle()
            self._drained(self._attempt.lane)
        self._attempt.reporter.update(halted="", drained=outcome.drained)
        return outcome.drained

    def _tell_halted(self) -> None:
        attempt, report, order = self._attempt, self._attempt.reporter.current, self._life.drain()
        positions = texts(attempt.positions())
        if order is not None and (report.drain.halted != order.uuid or report.progress.positions != positions):
            attempt.reporter.update(
                phase=LanePhase.RUNNING, batch=attempt.folder.committed(), positions=positions, halted=order.uuid
            )
