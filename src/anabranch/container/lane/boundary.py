"""Ends a lane's query at a batch boundary, or in the middle of a batch that is broken off."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pyspark.sql.streaming.query import StreamingQuery

from anabranch.container.lane import breaking_off, quiet
from anabranch.container.lane.attempt import Attempt
from anabranch.container.lane.breaking_off import BreakOff
from anabranch.container.lane.monitor import Monitor
from anabranch.container.lane.queries import Queries
from anabranch.container.lane.upkeep import Upkeep
from anabranch.errors import AnabranchError
from anabranch.spark.internals import stop_at_batch
from anabranch.spark.query.query import LaneQuery
from anabranch.throttle import Throttled

__all__ = ["Boundary"]

_TELL_EVERY = 1.0
"""The seconds between two updates of ``waits``, what the lane waits for, in a lane's report."""


class Boundary:
    """Ends queries. Used by the lane's own thread."""

    def __init__(self, attempt: Attempt, monitor: Monitor, upkeep: Upkeep, queries: Queries) -> None:
        self._attempt = attempt
        self._life = attempt.life
        self._monitor = monitor
        self._upkeep = upkeep
        self._queries = queries

    def reach(self, started: StreamingQuery, turn: Callable[[], None] | None = None) -> None:
        """End the lane's query at a batch boundary: after the running batch, or after the batch that is being planned.

        There are exceptions:

        - A closing lane with brief batches may run one more batch, during which its successors' queries are prestarted.
        - A query with the real-time trigger is stopped at once.
        - A batch of a closing or leaving lane may be broken off. If the lane leaves, this batch stays pending. If the
          lane closes, the batch is forgotten, or finished if part of it is visible.

        Any other batch that is pending after the query's end is finished, unless everything must end at once.

        Args:
            turn: a function to call repeatedly during the wait. By default, the query's progress is checked instead. If
                ``turn`` is given, a batch is broken off only if everything must end at once.
        """
        attempt, query, life = self._attempt, self._attempt.current, self._life
        ending = self._breaking(turn is None)
        if query.plan.real_time:
            started.stop()
        else:
            another = life.closes() and attempt.handover.is_awaited() and self._is_brief(query)
            if another:
                query.pacer.shorten(breaking_off.BRIEF)
            stop_at_batch.end(
                attempt.lane_folders.spark,
                started,
                query.writing.is_set,
                turn or partial(self._upkeep.look, started),
                ending.due,
                another=another,
                decided=ending.decided,
            )
        self._monitor.take_progress(started)
        if ending.broken or life.leaves_at_once() or query.plan.real_time:
            query.workers.cancel(str(started.runId))
        if ending.broken:
            self._broken_off()
            return
        failed = None if life.leaves_at_once() else started.exception()
        if failed is not None:
            raise failed
        if attempt.folder.pending and not life.leaves_at_once():
            last = attempt.started = query.start(once=True, taken=True)
            self._queries.await_batch(last, turn or partial(self._upkeep.look, last))

    def finish(self, *, seen: bool = False) -> None:
        """Finish or forget the pending batch of a former query, without starting another batch. If ``seen`` is
        True, part of the batch is known to be visible, and the batch is finished unless everything must end at once."""
        attempt, folder = self._attempt, self._attempt.folder
        attempt.folder_in_use = folder
        query = attempt.use(attempt.build_query())
        if folder.pending and not seen:
            seen = not self._takes_back(query)
        if seen:
            attempt.reporter.update(
                waits=breaking_off.told(folder.planned(), "was started before, and is being finished", None)
            )
        last = folder.batch(folder.planned()) if folder.planned() >= 0 else None
        if last is None or not folder.pending:
            query.outputs.time.begin(last, pending=False)
            return
        self._queries.mend_time(query)
        attempt.reporter.update(begun=True)
        started = attempt.started = query.start(once=True, last=last, pending=True)
        breaking_off.runs(folder, query.writing)
        self._queries.await_batch(started, partial(self._upkeep.look, started))

    def _takes_back(self, query: LaneQuery) -> bool:
        """Forget the batch that a former query started, if this is allowed and no part of the batch is in an
        exactly-once output or a table. Returns whether the batch was forgotten."""
        attempt, folder = self._attempt, self._attempt.folder
        repeats = query.outputs.repeats and not self._life.closes_now()
        if (
            repeats
            or query.plan.real_time
            or folder.batch(folder.planned()).drains
            or not breaking_off.is_quiet(folder)
        ):
            return False
        return breaking_off.taken_back(attempt.lane_folders, attempt.lane, attempt.epoch, folder)

    def _breaking(self, may: bool) -> BreakOff:
        """The object that decides whether the running batch is broken off. If ``may`` is False, the batch is broken off
        only if everything must end at once."""
        query, life, reporter = self._attempt.current, self._life, self._attempt.reporter
        return BreakOff(
            query.gate,
            wanted=lambda: may and life.stops(),
            now=life.closes_now,
            writing=query.writing.is_set,
            hurry=life.leaves_at_once,
            keeps=self._why_kept,
            left=self._left,
            judge=lambda number, left, spent, waited, now: breaking_off.verdict(
                left,
                spent,
                waited,
                now,
                reporter.usual,
                gradual=reporter.current.load.gradual,
                decided=life.decided(number),
            ),
            tell=Throttled(lambda why: reporter.update(waits=why), every=_TELL_EVERY),
            stays=self._tell_end,
        )

    def _is_brief(self, query: LaneQuery) -> bool:
        gate = query.gate
        left = self._left(gate.number, gate.seconds) if query.writing.is_set() else None
        return breaking_off.is_brief(self._attempt.reporter.usual, left)

    def _left(self, number: int, spent: float) -> float | None:
        """See :attr:`BreakOff.left`."""
        report, reporter = self._attempt.report, self._attempt.reporter
        at, cost = report.progress.batch_progress, reporter.current.load.cost
        return breaking_off.estimated(at, number, spent, reporter.usual, cost)

    def _why_kept(self, number: int) -> str:
        """Why a running batch can't be broken off; empty if no reason is known here. Even if the result is empty,
        ``query.gate`` can still refuse to break the batch off."""
        attempt, query = self._attempt, self._attempt.current
        if not self._life.closes():
            return ""  # the batch stays planned
        if number == self._queries.pending_at_start and query.outputs.repeats and not self._life.closes_now():
            return f"was started before, and {query.outputs.repeats}"
        try:
            return "is seen in part" if attempt.lane_folders.seen(attempt.lane) >= number else ""
        except AnabranchError as error:
            return f"can't be looked at: {error.what}"

    def _broken_off(self) -> None:
        """Handle a batch that was broken off. If the lane closes, forget the batch (or finish it, if part of it is
        visible), and announce where the lane ends. Otherwise, leave the batch pending."""
        attempt, folder, closes = self._attempt, self._attempt.folder, self._life.closes
        quiet.wait(attempt)
        if folder.pending and not closes():
            attempt.current.outputs.refresh()  # otherwise, open transactions of the batch would keep readers waiting
            return
        if folder.pending and not breaking_off.taken_back(attempt.lane_folders, attempt.lane, attempt.epoch, folder):
            self.finish(seen=True)
        if closes() and not folder.pending:
            attempt.handover.ends_at(attempt.positions())

    def _tell_end(self) -> None:
        """Announce that the lane will end at the end offsets of its last planned batch. Does nothing if the lane
        leaves at once, or if the lane isn't closing. Call this only if the batch can no longer be broken off."""
        attempt, folder = self._attempt, self._attempt.folder
        if self._life.closes() and not self._life.leaves_at_once() and folder.planned() >= 0:
            attempt.handover.ends_at(attempt.wholes(folder.planned_positions(folder.planned())))
