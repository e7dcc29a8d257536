"""One lane in this container: takes its folder, runs its query, and ends it at a batch boundary."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from functools import partial
from time import monotonic
from typing import Any

import msgspec
from pyspark.sql.streaming.query import StreamingQuery

from anabranch import crash_points, logs
from anabranch.container import blame, breaking, failures, live, pacing, root_cause, starting
from anabranch.container.ahead import Ahead, Handover
from anabranch.container.attempts import Standstill
from anabranch.container.breaking import Breaking
from anabranch.container.checkpoint import damage
from anabranch.container.draining import Drain, Outcome
from anabranch.container.ends import Ends
from anabranch.container.failures import Failure, Remedy
from anabranch.container.folder import Folder
from anabranch.container.idleness import Idleness
from anabranch.container.inputs import Inputs
from anabranch.container.live import Live
from anabranch.container.outputs import Outputs
from anabranch.container.place import Place
from anabranch.container.remembering import Memory
from anabranch.errors import AnabranchError, StalledError, StateError
from anabranch.event_time.progress import Progress
from anabranch.model.lane import Lane
from anabranch.model.ssp import SSP, parsed, texts
from anabranch.pace.controller import Ran as Paced
from anabranch.protocol.drain import DrainOrder
from anabranch.protocol.lane_report import BatchProgress, LaneReport
from anabranch.spark import clock, history, isolation
from anabranch.spark.clock import Clock
from anabranch.spark.history import Ran
from anabranch.spark.internals import query_hold, stop_at_batch, thread_dump
from anabranch.spark.internals.query_hold import HeldQuery, NotHeldError
from anabranch.spark.query import LaneQuery

log = logs.get_logger()

_POLL = 0.1
_TELL_EVERY = 5.0
_LOOK_EVERY = 5.0
_SAMPLE_EVERY = 30.0
_REFRESH_EVERY = 12 * 3600.0
"""What tells whose the slots are expires after some days."""
_STUCK_EVERY = 1.0
_AT_ONCE = 0.01
_QUIET_WITHIN = 1.0
"""Seconds in which the thread has ended that wrote a batch which was broken off, unless a function of the user's is at
work in it."""
_URGENT = {"phase", "folder_epoch", "halted"}
one_at_a_time = threading.Lock()
"""Held while Spark analyzes or starts a query: all lanes share a session."""

_ALONE = Handover()


def logged(lane: str, error: BaseException) -> None:
    """The trace of a failure goes into the log, for those who look closer."""
    log.debug("a lane failed", lane=lane, trace=root_cause.text_of(error))


class _HurryError(Exception):
    """What runs is to be broken off."""


Offsets = dict[SSP, int]
Trace = Callable[[str, BaseException], None]
"""Takes the id of a lane, and what it failed for."""

Build = Callable[[Folder, str, Offsets, Callable[[int], None]], LaneQuery]
"""Makes the query from its folder, the file of its clock, where it starts, and who counts its drops."""


class LaneRunner:
    """Runs one lane in a thread of its own and keeps a report of it.

    ``build`` makes the query for a folder. ``until``: the noted ends of its inputs, None to run on. ``standstill`` says
    when it has to fail for it goes on no more. ``remedy``: what may help if it has failed; ``stalled``: it
    failed for it stood still. ``taken``: whether the outputs of a new lane were taken for it. ``wake`` is called when
    there is something in its report that others wait for, ``drained`` when the lane has drained; ``trace`` with what it
    failed for, to keep all that is known of it.
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
        self._taken = taken
        self._wake = wake
        self._drained = drained
        self._handover = handover
        self._trace = trace
        self._ahead: Ahead | None = None
        self._was_ahead: Ahead | None = None
        self.remedy = Remedy.ATTEMPT
        self.awaits = ""
        self.stalled = False
        self._standstill = standstill
        standstill.begin()
        self._place = place
        self._epoch = epoch
        self._build = build
        self._starting = starting
        self._until = until
        self._news = threading.Event()
        self._stop = threading.Event()
        self._closing = threading.Event()
        self._leaving = threading.Event()
        self._hurry = threading.Event()
        self._now = threading.Event()
        self._begun_before = -1
        self._upstream_ended = threading.Event()
        self._draining: DrainOrder | None = None
        self._known = threading.Event()
        has_folder = lane.folder_epoch and not lane.abandoned
        self._report = LaneReport(lane=lane.id, phase="starting", folder_epoch=lane.folder_epoch if has_folder else 0)
        self._rows = 0
        self._live = Live(lane)
        self._seen_batch = -1
        self._newest_progress = ""
        self._clock = place.clock(lane)
        self._idleness = Idleness(math.inf)
        self._idle: dict[str, int] = {}
        self._query: LaneQuery | None = None
        self._analyzed: LaneQuery | None = None
        self._held: Folder | None = None
        self._started: StreamingQuery | None = None
        self._not_held = False
        self._dropped = 0
        self._noted = False
        self._most = 0
        self._late_groups = 0
        self._late: Counter[str] = Counter()
        self._inputs = Inputs(place.systems, lane, starting)
        self._ends = Ends(lane.id, self._inputs.ends, until)
        self._outputs = Outputs(place.systems, lane)
        self._speed = Memory(place, lane)
        self._told_at = 0.0
        self._refreshed = monotonic()
        self._looked_at = monotonic()
        self._begun_at = 0.0
        self._sampled_at = monotonic()
        self._stuck_at = 0.0
        self._stuck_told: dict[str, Any] = {}
        self._thread = threading.Thread(target=self._run, name=f"lane {lane.id}", daemon=True)

    @property
    def report(self) -> LaneReport:
        report = self._live.applied(self._report, None if self.ended else self._query)
        if self._draining is None:
            return report
        if monotonic() > self._stuck_at + _STUCK_EVERY:
            self._stuck_at, self._stuck_told = monotonic(), self._stuck()
        return msgspec.structs.replace(report, **self._stuck_told)

    def _stuck(self) -> dict[str, Any]:
        """What a function has worked on for long."""
        query = self._query
        work = live.oldest(query) if query is not None and not self.ended else None
        if work is None or query is None:
            return {}
        ssp = query.ssp_of(work.source, work.partition, work.bucket)
        where = f"offset {work.offset} of {ssp}" if ssp is not None else f"a row of state partition {work.partition}"
        bucket = f"bucket {work.bucket} of {self.lane.factor}"
        told = f"{work.label} has worked on {where} ({bucket}) for {work.seconds:.0f} s"
        return {"stuck": told, "overdue": work.seconds > query.message_patience}

    @property
    def ended(self) -> bool:
        return self._report.phase in ("ended", "failed")

    def start(self) -> None:
        self._begun_at = monotonic()
        self._thread.start()

    def stop(self, at_once: bool = False) -> None:
        """End at the next batch boundary; or at once: who goes on finishes the batch."""
        if at_once:
            self._hurry.set()
        self._leaving.set()
        self._stop.set()
        self._news.set()

    def close(self, now: bool = False) -> None:
        """Finish what was begun, or take it back, and end at a batch boundary: others go on from there. ``now``: don't
        wait for what can be done again."""
        if now:
            self._now.set()
        self._closing.set()
        self._stop.set()
        self._news.set()

    def drain(self, how: DrainOrder | None) -> None:
        """Drain so; None: go on as before."""
        if how != self._draining:
            self._draining = how
            self._news.set()

    def acknowledge(self, upstream_ended: bool) -> None:
        """The coordinator knows the lane's folder: only now may its query begin."""
        self._known.set()
        if upstream_ended and not self._upstream_ended.is_set():
            self._upstream_ended.set()
            self._news.set()

    def join(self, timeout: float) -> bool:
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._ahead = self._handover.begun()
            folder = self._place.folder(
                self.lane, self._epoch, self._leaving.is_set, self._taken(), self._ahead is not None
            )
            self._begin_where_it_began(folder)
            self._tell(folder_epoch=self._report.folder_epoch or self._epoch)
            with self._analyzing(folder):
                if self._ahead is None:
                    self._inputs.take(folder)
                self._outputs.compare(folder)
                while not self._known.wait(_POLL):
                    if self._leaving.is_set():
                        self._abandon_ahead()
                        self._end(folder, begun=False)
                        return
            while not self._closing.is_set() or self._started is not None:
                if self._drains(folder):
                    self._abandon_ahead()
                    if self._drain(folder) or self._stop.is_set():
                        break
                    continue
                query = self._start(folder)
                try:
                    drained = self._watch(folder, query)
                except Exception as error:
                    if not self._goes_on_smaller(folder, error):
                        raise
                else:
                    if drained or self._stop.is_set() or not self._drains(folder):
                        break
            else:
                self._abandon_ahead()
                self._finish(folder)
            self._end(folder)
        except Exception as error:
            failed = self._failure(error)
            self.remedy, self.awaits = failed.remedy, failed.awaits
            isolation.note(self.lane.id, error)
            with suppress(Exception):  # nobody may be there to read it, or the disk may be full
                self._trace(self.lane.id, error)
            with suppress(Exception):  # what it leaves is right: the lane begins there
                self._abandon_ahead()
            if self._started is not None:
                self._started.stop()  # what failed may be ours, and not the query
            clock.forget(self._clock)
            self._tell(phase="failed", error=failed.told, fenced=failures.is_fenced(error))

    def _begin_where_it_began(self, folder: Folder) -> None:
        """A first batch that was planned begins where the lane began then, and so does one that wasn't."""
        noted = parsed(folder.note_starting(texts(self._starting)))
        mine = {ssp: offset for ssp, offset in noted.items() if ssp in self._starting}
        self._starting = {**self._starting, **mine, **self.lane.begins}
        self._inputs = Inputs(self._place.systems, self.lane, self._starting)

    @contextmanager
    def _analyzing(self, folder: Folder) -> Iterator[None]:
        """Let Spark analyze the query meanwhile. What is wrong with it comes out when it starts."""

        def analyze() -> None:
            with suppress(Exception):
                query = self._build_for(folder)
                with one_at_a_time:
                    query.analyze()
                self._analyzed = query

        thread = threading.Thread(target=analyze, name=f"analyzes {self.lane.id}", daemon=True)
        thread.start()
        try:
            yield
        finally:
            thread.join()

    def _build_for(self, folder: Folder) -> LaneQuery:
        return self._build(folder, str(self._clock), self._starting, self._count_dropped)

    def _finish(self, folder: Folder, *, seen: bool = False) -> None:
        """Finish the batch that a former query has begun, or take it back; and begin no other one. ``seen``: something
        of it is."""
        self._held = folder
        query = self._goes_by(self._build_for(folder))
        if folder.pending and not seen:
            seen = not self._takes_back(folder, query)
        if seen:
            self._tell(waits=breaking.told(folder.planned(), "was begun before, and is finished", None))
        last = folder.batch(folder.planned()) if folder.planned() >= 0 else None
        if last is None or not folder.pending:
            query.look_back(last)
            return
        self._mend_time(folder, query)
        with one_at_a_time:
            self._tell(begun=True)
            self._started = query.start(once=True, last=last, pending=True)
        breaking.runs(folder, query.writing)
        while not self._started.awaitTermination(1):
            self._wait_for_batch(folder, self._started)
        self._take_progress(folder, self._started)

    def _takes_back(self, folder: Folder, query: LaneQuery) -> bool:
        """Take the batch back that a former query has begun, if nobody may have seen anything of it."""
        repeats = query.repeats and not self._now.is_set()
        if repeats or query.real_time or folder.batch(folder.planned()).drains or not breaking.is_quiet(folder):
            return False
        return breaking.taken_back(self._place, self.lane, self._epoch, folder)

    def _drains(self, folder: Folder) -> bool:
        """Whether it takes in no more by itself: at once, if it reads what the job doesn't write itself; else once all
        that write its inputs have ended."""
        if self._draining is None:
            return False
        if self._query is None:
            self._query = self._build_for(folder)
        own = self._query.own
        return any(ssp.stream not in own for ssp in self._inputs.ssps) or self._upstream_ended.is_set()

    def _drain(self, folder: Folder) -> bool:
        """Drain after the query has ended: each batch that is planned has one of its own. Gives whether it has drained;
        False: it goes on as before, or leaves."""
        self._built(folder)
        run = partial(self._run_planned, folder)
        begin = partial(self._begin_with_nothing, folder)
        outcome = self._draining_by(folder, run=run, begin=begin, end=run, pause=self._pause)()
        return self._has_drained(outcome)

    def _drain_held(self, folder: Folder, query: StreamingQuery) -> bool:
        """The same with the query that runs: if it has drained, that has ended."""

        def look() -> None:
            if self._hurry.is_set():
                raise _HurryError
            self._raise_if_ended(query)
            self._take_progress(folder, query)

        def turn() -> None:
            look()
            self._check_progress()

        def pause(seconds: float) -> None:
            look()
            self._standstill.begin()  # it stands as it should
            self._pause(seconds)

        def end() -> None:
            assert self._query is not None
            writing = self._query.writing
            held.go(lambda: writing.wait(_POLL) or not folder.pending)
            # However much state there is to come out: nobody sees whether the batch goes on.
            self._stop_at_boundary(folder, query, partial(self._take_progress, folder, query))

        outcome = Outcome(drained=False)
        try:
            with suppress(_HurryError), closing(self._hold(query, turn)) as held:
                outcome = self._draining_by(folder, run=held.run, begin=held.begin, end=end, pause=pause)()
                if not outcome.drained and not self._stop.is_set():
                    held.release()
        except NotHeldError as error:
            log.warning("a query can't be held, and is stopped instead", lane=self.lane.id, error=error.what)
            self._not_held = True
            return False
        if outcome.drained:
            self._stop_at_boundary(folder, query)
        return self._has_drained(outcome)

    def _can_hold(self) -> bool:
        """Whether the query that runs can be held: else it drains when it has ended."""
        if self._query is None or not self._query.holdable or self._not_held:
            return False
        return query_hold.SURFACE.works(self._place.spark)

    def _hold(self, query: StreamingQuery, turn: Callable[[], None]) -> HeldQuery:
        assert self._query is not None
        return HeldQuery(self._place.spark, query, turn, self._query.pacer.limits(query))

    def _draining_by(self, folder: Folder, **how: Any) -> Drain:
        """``how``: what depends on whether the query runs."""
        assert self._query is not None
        return Drain(
            lane=self.lane.id,
            folder=folder,
            query=self._query,
            clock=self._clock,
            systems=self._place.systems,
            ssps=self._inputs.ssps,
            starting=self._starting,
            wanted=lambda: self._draining,
            upstream_ended=self._upstream_ended.is_set,
            leaving=self._stop.is_set,
            tell=lambda: self._tell_halted(folder),
            now=clock.unix_ms,
            **how,
        )

    def _has_drained(self, outcome: Outcome) -> bool:
        """Whether it has; lets all know that."""
        if outcome.drained:
            assert self._query is not None
            self._query.settle()
            self._drained(self.lane)
        self._tell(halted="", drained=outcome.drained)
        return outcome.drained

    def _tell_halted(self, folder: Folder) -> None:
        positions, how = texts(self._positions(folder)), self._draining
        if how is not None and (self._report.halted != how.uuid or self._report.positions != positions):
            self._tell(phase="running", batch=folder.committed(), positions=positions, halted=how.uuid)

    def _wait_for_batch(self, folder: Folder, query: StreamingQuery) -> None:
        self._take_progress(folder, query)
        self._check_progress()

    def _run_planned(self, folder: Folder) -> None:
        """Run the batch that was planned, and no other one."""
        assert self._query is not None
        last = folder.batch(folder.planned())
        taken = self._started is not None
        with one_at_a_time:
            self._tell(begun=True, halted="")
            self._started = self._query.start(once=True, last=last, pending=True, taken=taken)
        while not self._started.awaitTermination(1):
            if not last.drains:  # however much state there is to come out
                self._wait_for_batch(folder, self._started)
        self._take_progress(folder, self._started)

    def _begin_with_nothing(self, folder: Folder) -> None:
        """Run a lane's first batch such that it reads nothing: after it, others can be planned."""
        assert self._query is not None
        with one_at_a_time:
            self._tell(begun=True, halted="")
            self._started = replace(self._query, nothing=True).start()
        while folder.committed() < 0 and self._started.isActive:
            self._pause(_POLL)
        stop_at_batch.end(self._place.spark, self._started, self._query.writing.is_set)
        failed = self._started.exception()
        if failed is not None:
            raise failed
        if folder.pending:
            self._run_planned(folder)

    def _failure(self, error: Exception) -> Failure:
        return self._place.explained(self._cause(error))

    def _cause(self, error: Exception) -> Failure:
        if isinstance(error, AnabranchError):
            return failures.failure(error)
        ours = failures.is_ours(error)
        found = None if ours else self._wrong_inputs()
        if found is not None:
            return replace(failures.failure(found), remedy=Remedy.NONE)
        failed = failures.failure(error, self._query.home if self._query is not None else "")
        blamed = None
        if not ours and self._query is not None:
            text = root_cause.text_of(error)
            blamed = blame.explained(
                text, failed.what.rstrip("."), self._query.operators, self._pending_ranges(self._query)
            )
        if blamed is None:
            return failed
        return replace(failed, what=blamed.what, cure=blamed.cure, remedy=Remedy.ATTEMPT)

    def _wrong_inputs(self) -> AnabranchError | None:
        """What is wrong with the inputs, if that is it: what Spark says of a stream that is gone is hard to read."""
        try:
            if self._held is not None:
                self._inputs.check(self._held)
                damage.check(self._held, self.lane)
        except AnabranchError as found:
            return found
        except Exception:  # the folder may be what failed
            return None
        return None

    def _pending_ranges(self, query: LaneQuery) -> dict[str, tuple[int, int]]:
        try:
            held = self._held
            return query.ranges(held.batch(held.planned())) if held is not None and held.pending else {}
        except Exception:  # the folder may be what failed
            return {}

    def _built(self, folder: Folder) -> LaneQuery:
        """The query, for the folder as it is now."""
        self._held = folder
        query, self._analyzed = self._analyzed or self._build_for(folder), None
        query = self._goes_by(query)
        self._mend_time(folder, query)
        self._shrink(folder, query)
        return query

    def _goes_by(self, query: LaneQuery) -> LaneQuery:
        """What former ones have counted stays."""
        if self._query is not None and self._query is not query:
            self._late += self._query.late
            query.pacer.go_on(self._query.pacer)
        self._query = query
        return query

    def _abandon_ahead(self) -> None:
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            ahead.abandon()

    def _start(self, folder: Folder) -> StreamingQuery:
        if self._ahead is not None:
            return self._go_on_ahead(folder)
        query = self._built(folder)
        last, pending = folder.planned(), folder.pending
        self._begun_before = last if pending else -1
        batch = folder.batch(last) if last >= 0 else None
        self._carry_idle(folder, last, query.settings.job.idle_seconds)
        taken = last < self.lane.first_batch and self._started is None and self._taken()
        with starting.shared.place() as until_started:
            with one_at_a_time:
                self._tell(begun=True)
                started = query.start(last=batch, pending=pending, taken=taken)
            until_started(started)
        return self._runs(folder, query, started)

    def _go_on_ahead(self, folder: Folder) -> StreamingQuery:
        """Let the query that was begun ahead be the lane's."""
        ahead = self._was_ahead = self._ahead
        self._ahead = None
        assert ahead is not None
        self._held = folder
        query, self._analyzed = self._goes_by(self._analyzed or self._build_for(folder)), None
        self._carry_idle(folder, -1, query.settings.job.idle_seconds)
        self._tell(begun=True)
        log.debug("a lane goes on with a query that was begun ahead", lane=self.lane.id)
        return self._runs(folder, query, ahead.go_on(query))

    def _runs(self, folder: Folder, query: LaneQuery, started: StreamingQuery) -> StreamingQuery:
        self._started = started
        breaking.runs(folder, query.writing)
        held = texts(self._positions(folder))
        limit = 0 if query.real_time else query.pacer.limit
        self._tell(sequential=query.sequential, repeats=query.repeats)
        self._tell(phase="running", batch=folder.committed(), positions=held, run=str(started.runId), limit=limit)
        if not query.has_event_time:
            self._note_progress(folder, Progress())
        self._sample(query)
        return started

    def _mend_time(self, folder: Folder, query: LaneQuery) -> None:
        if folder.pending and query.out_of_time(folder.batch(folder.planned())):
            log.warning("a batch was planned before the last one: the clock was set back", lane=self.lane.id)
            folder.mend_time()

    def _sample(self, query: LaneQuery) -> None:
        """Look at some keys of the inputs, until something is odd about them."""
        if query.stateful and not self._report.warnings:
            self._tell(warnings=self._inputs.warnings(query.own))
            for warning in self._report.warnings:
                log.warning(warning, lane=self.lane.id)
        self._sampled_at = monotonic()

    def _raise_if_ended(self, query: StreamingQuery) -> None:
        if not query.isActive:
            error = query.exception()
            raise error if error is not None else StateError(f"the query of lane {self.lane.id} ended by itself", "")

    def _watch(self, folder: Folder, query: StreamingQuery) -> bool:
        """Until the query has ended; gives whether the lane has drained."""
        while True:
            self._take_progress(folder, query)
            if self._stop.is_set() or self._done(folder):
                break
            self._raise_if_ended(query)
            if self._drains(folder):
                if not self._can_hold():
                    break
                if self._drain_held(folder, query):
                    return True
                continue
            self._check_progress()
            slow = self._outlasts(folder)
            if slow is not None:
                query = self._begin_smaller(folder, query, slow)
            if monotonic() > self._refreshed + _REFRESH_EVERY and self._query is not None:
                self._query.refresh()
                self._refreshed = monotonic()
            if monotonic() > self._looked_at + _LOOK_EVERY:
                self._outputs.check()
                self._looked_at = monotonic()
            if monotonic() > self._sampled_at + _SAMPLE_EVERY and self._query is not None:
                self._sample(self._query)
            self._pause(_POLL)
        self._stop_at_boundary(folder, query)
        return False

    def _pause(self, seconds: float) -> None:
        """Wait so long, or until the lane is told something."""
        self._news.wait(seconds)
        self._news.clear()

    def _check_progress(self) -> None:
        """Raises StalledError if records wait and nothing is done with them; shows what the threads do."""
        still = self._standstill.seen(self._report, monotonic())
        if still:
            self.stalled = True
            log.error(
                "a lane stands still",
                lane=self.lane.id,
                why=still,
                threads=thread_dump.of_lane(self._place.spark, self.lane.id),
            )
            raise StalledError(f"lane {self.lane.id} stands still: {still}", "its threads are in the container's log")

    def _goes_on_smaller(self, folder: Folder, error: Exception) -> bool:
        """Whether a batch that took too long can be run again with fewer rows."""
        if not pacing.is_too_long(error) or self._query is None or not self._can_shrink(folder):
            return False
        rows = sum(end - begin for begin, end in self._pending_ranges(self._query).values())
        if rows <= 1:
            return False
        self._query.pacer.failed(rows)
        self._most = self._query.pacer.limit
        return True

    def _outlasts(self, folder: Folder) -> BatchProgress | None:
        """How far the batch is, if it will take longer than it may, and can be begun anew with fewer rows."""
        if self._query is None or self._query.stateful or math.isinf(self._query.allowed):
            return None
        progress = self.report.batch_progress
        if progress is None or progress.planned <= 1 or not pacing.outlasts(progress, self._query.allowed):
            return None
        return progress if self._can_shrink(folder) else None

    def _begin_smaller(self, folder: Folder, query: StreamingQuery, progress: BatchProgress) -> StreamingQuery:
        """Break the batch off, unless something of it is seen already."""
        assert self._query is not None
        if self._query.gate.shut():
            return query
        log.warning(
            "a batch would take longer than a transaction may",
            lane=self.lane.id,
            batch=progress.number,
            rows=progress.planned,
            done=progress.done,
            seconds=progress.seconds,
        )
        query.stop()
        self._wait_until_quiet(folder)
        self._query.pacer.failed(progress.planned, Paced(max(1, progress.done), progress.seconds))
        self._most = self._query.pacer.limit
        return self._start(folder)

    def _can_shrink(self, folder: Folder) -> bool:
        stateless = self._query is not None and not self._query.stateful
        return stateless and folder.pending and self._place.published(self.lane) < folder.planned()

    def _shrink(self, folder: Folder, query: LaneQuery) -> None:
        """A pending batch that took too long, and of which nothing was published, is planned anew."""
        most, self._most = self._most, 0
        if not most or query.real_time or not self._can_shrink(folder):
            return
        if (
            self._place.withdrawn(self.lane, self._epoch, began=folder.committed() >= self.lane.first_batch)
            >= folder.planned()
        ):
            return  # a task that went on when its query had ended has let something of it be seen
        starting: dict[str, dict[int, int]] = {}
        for ssp, offset in self._starting.items():
            starting.setdefault(ssp.stream, {})[ssp.partition] = offset
        had = pacing.shrink(folder, starting, most)
        if had:
            log.warning("the batch is made smaller", lane=self.lane.id, batch=folder.planned(), rows=most, had=had)

    def _count_dropped(self, records: int) -> None:
        self._dropped += records

    def _take_progress(self, folder: Folder, query: StreamingQuery) -> None:
        newest = history.newest(self._place.spark, query)
        told = clock.read(self._clock)
        if told is not None:
            self._tell(watermark=told.progress.watermark, held_by=told.held_by, idle=tuple(told.idle))
            self._look_for_idle(told)
        if newest == self._newest_progress:
            self._tell(ends=self._ends.now(), ends_known=self._ends.sure)
            self._tell(**self._live.idled(self._report))
            return
        self._newest_progress = newest
        for ran in history.since(self._place.spark, query, self._seen_batch):
            self._rows += ran.rows
            self._late_groups += ran.late_groups
            self._seen_batch = ran.number
            self._take_pace(ran)
            self._tell(
                batch=ran.number,
                rows=self._rows,
                seconds=ran.seconds,
                rows_per_second=ran.rows / ran.seconds if ran.seconds else 0.0,
                ends=self._ends.now(),
                ends_known=self._ends.sure,
                positions=texts(self._positions(folder)),
                dead_letters=self._dead_letters(),
                dropped=self._dropped,
                late_groups=self._late_groups,
                late=dict(self._late + self._query.late) if self._query is not None else {},
                windows=ran.state_rows if self._query is not None and self._query.empties else 0,
                changeover=self._changeover(ran),
                first_output=self._report.first_output or (ran.ended if ran.rows else 0.0),
                last_output=ran.ended if ran.rows else self._report.last_output,
                state_bytes=ran.state_bytes,
            )
            crash_points.reach(crash_points.COMMITTED, self.lane.id, self._seen_batch)
            self._outputs.note(folder)
            self._look_at_work()
        if monotonic() > self._told_at + _TELL_EVERY:
            self._inputs.tell(parsed(self._report.positions))
            self._told_at = monotonic()

    def _take_pace(self, ran: Ran) -> None:
        if self._query is not None and not self._query.real_time:
            self._query.pacer.took(ran.number, ran.seconds)
            self._tell(limit=self._query.pacer.limit)
            self._note_speed()

    def _note_speed(self, *, ends: bool = False) -> None:
        """Let those know who run such a lane next."""
        if self._query is not None and not self._query.real_time and self._query.pacer.is_known:
            self._speed.note(self._query.pacer.limit, ends=ends)

    def _look_for_idle(self, time: Clock) -> None:
        """Let the lane's clock know which inputs are idle. Up to noted ends, none is: a run is as long as it is."""
        if self._until is not None:
            return
        wanted = {ssp: at for ssp, at in time.positions.items() if time.delays.get(ssp) is not None}
        ends = self._ends.now()
        found = self._idleness.seen(wanted, ends if self._ends.sure else {}, monotonic())
        if found != self._idle:
            clock.note_idle(self._clock, found)
            self._idle = found

    def _carry_idle(self, folder: Folder, last: int, patience: float) -> None:
        """What was idle when a former process ended is it still, unless something came meanwhile."""
        self._idleness = Idleness(patience)
        was = folder.batch(last).progress.idle if last >= 0 and self._until is None else frozenset()
        ends = self._ends.now(fresh=True) if was else {}
        at = texts(self._positions(folder)) if self._ends.sure else {}
        self._idle = self._idleness.carry(was, at, ends)
        clock.note_idle(self._clock, self._idle)

    def _changeover(self, ran: Ran) -> float:
        """See :class:`LaneReport`."""
        if ran.number != self.lane.first_batch or not self.lane.predecessors or self._report.changeover:
            return self._report.changeover
        if self._was_ahead is not None:  # the batch was planned before the lane began
            return max(_AT_ONCE, self._was_ahead.published_at - self._begun_at)
        return max(0.0, monotonic() - self._begun_at - ran.seconds)

    def _look_at_work(self) -> None:
        """How busy the lane is, and which bucket keeps it so."""
        assert self._query is not None
        self._tell(**self._live.ran(self._report, self._query.take_busy()))

    def _dead_letters(self) -> int:
        """How many records this lane has ever put aside: the streams that hold them know it."""
        return self._query.put_aside if self._query is not None else self.lane.put_aside

    def _done(self, folder: Folder) -> bool:
        try:
            return self._caught_up() and self._timely(folder)
        except AnabranchError as error:
            log.debug("whether the lane has caught up isn't known", lane=self.lane.id, error=str(error))
            return False

    def _caught_up(self) -> bool:
        """Whether all inputs are at their noted ends, and intermediate ones read out with nobody left to write them."""
        if self._until is None:
            return False
        held, ends = parsed(self._report.positions), parsed(self._report.ends)
        for ssp in (*self.lane.ssps, *self.lane.broadcast):
            at = held.get(ssp.whole, self._starting.get(ssp.whole, 0))
            if ssp.whole in self._until:
                if at < self._until[ssp.whole]:
                    return False
            elif not self._upstream_ended.is_set() or at < self._end_of(ssp.whole, ends):
                return False
        return True

    def _timely(self, folder: Folder) -> bool:
        """Whether the lane's last watermark has been taken in, and told to the lanes that read its output."""
        if folder.planned() < 0:
            return True
        told = clock.read(self._clock)
        if told is None and self._query is not None and self._query.has_event_time:
            return False
        if told is not None:
            heard = told.heard(self._place.systems.named, clock.unix_ms())
            if folder.batch(folder.planned()).progress != heard:
                return False
        # Timers of processing time call for one batch after the other: whichever runs is finished when the lane stops.
        return (self._query is not None and self._query.ticks) or folder.settled()

    def _end_of(self, ssp: SSP, ends: Mapping[SSP, int]) -> int:
        # The report's ends may be older than the news that the lanes before have ended.
        fresh = self._place.systems.named(ssp.system).high_watermarks(ssp.stream)[ssp.partition]
        return max(fresh, ends.get(ssp, 0))

    def _stop_at_boundary(self, folder: Folder, query: StreamingQuery, turn: Callable[[], None] | None = None) -> None:
        """Let the running batch end, and no other one begin; one that was just being planned is finished by itself.
        ``turn`` is called meanwhile; None: sees that the batch goes on."""
        assert self._query is not None
        ending = self._breaking(folder, turn is None)
        if self._query.real_time:
            query.stop()
        else:
            stop_at_batch.end(
                self._place.spark,
                query,
                self._query.writing.is_set,
                turn or partial(self._wait_for_batch, folder, query),
                ending.due,
                another=self._closing.is_set() and self._handover.is_awaited() and breaking.is_brief(self._live.usual),
                decided=ending.decided,
            )
        self._take_progress(folder, query)
        if ending.broken:
            self._broken_off(folder)
            return
        failed = None if self._hurry.is_set() else query.exception()
        if failed is not None:
            raise failed
        if folder.pending and not self._hurry.is_set():
            with one_at_a_time:
                last = self._query.start(once=True, taken=True)
            last.awaitTermination()

    def _breaking(self, folder: Folder, may: bool) -> Breaking:
        """Decides whether the running batch is broken off; ``may`` False: it isn't."""
        assert self._query is not None
        return Breaking(
            self._query.gate,
            wanted=lambda: may and self._stop.is_set(),
            now=self._now.is_set,
            writing=self._query.writing.is_set,
            hurry=self._hurry.is_set,
            keeps=self._keeps,
            left=lambda number, spent: breaking.estimated(self.report.batch_progress, number, spent, self._live.usual),
            usual=lambda: self._live.usual,
            tell=lambda why: self._tell(waits=why),
            stays=partial(self._tell_end, folder),
        )

    def _keeps(self, number: int) -> str:
        """Why a batch that runs can't be taken back, if it is to be; the gate knows the rest."""
        assert self._query is not None
        if not self._closing.is_set():
            return ""  # it stays planned
        if number == self._begun_before and self._query.repeats and not self._now.is_set():
            return f"was begun before, and {self._query.repeats}"
        try:
            return "is seen in part" if self._place.seen(self.lane) >= number else ""
        except AnabranchError as error:
            return f"can't be looked at: {error.what}"

    def _broken_off(self, folder: Folder) -> None:
        """The query was stopped in the middle of a batch, of which nothing can be published any more."""
        assert self._query is not None
        self._wait_until_quiet(folder)
        if folder.pending and not self._closing.is_set():
            self._query.refresh()  # else its open transactions would keep readers waiting
            return
        if folder.pending and not breaking.taken_back(self._place, self.lane, self._epoch, folder):
            self._finish(folder, seen=True)
        if self._closing.is_set():
            self._handover.ends_at(self._positions(folder))

    def _wait_until_quiet(self, folder: Folder) -> None:
        """Until no thread of a query that was stopped can publish anything."""
        while not breaking.is_quiet(folder, _QUIET_WITHIN):
            what = "was broken off, and the function that it was given to hasn't returned"
            self._tell(waits=breaking.told(folder.planned(), what, None))

    def _tell_end(self, folder: Folder) -> None:
        """Say where the last batch ends, as soon as it is planned: others may go on from there."""
        if self._closing.is_set() and not self._hurry.is_set() and folder.planned() >= 0:
            self._handover.ends_at(self._wholes(folder.planned_positions(folder.planned())))

    def _end(self, folder: Folder, *, begun: bool = True) -> None:
        """``begun`` False: whoever is next does what was to be done."""
        if (
            self._query is not None
            and not self._report.drained  # that has settled already
            and (not self._closing.is_set() or self._query.own & self.lane.outputs.keys())
        ):
            self._query.settle()
        told = clock.read(self._clock)
        if begun and not (told is None and self._noted) and not folder.pending:
            self._note_progress(folder, Progress() if told is None else told.progress)
        clock.forget(self._clock)
        self._note_speed(ends=True)
        self._outputs.note(folder, last=True)
        positions = self._positions(folder)
        self._tell(
            phase="ended",
            waits="",
            positions=texts(positions),
            batch=folder.committed(),
            ends=self._ends.now(fresh=not self._closing.is_set()),
            dead_letters=self._dead_letters(),
            dropped=self._dropped,
            stopped=(self._until is not None or self._draining is not None) and self._stop.is_set(),
            pending=folder.pending or not begun,
            wrote=self._wrote(),
        )
        self._inputs.tell(positions)  # others may go on from it meanwhile

    def _note_progress(self, folder: Folder, left: Progress) -> None:
        folder.note_progress(left, (str(ssp) for ssp in self._inputs.ssps))
        self._noted = True

    def _wrote(self) -> dict[str, int]:
        """Where the streams between stages end that the lane writes, if others may go on from it."""
        if self._query is None or not (self._closing.is_set() or self._until is not None or self._report.drained):
            return {}
        found: dict[str, int] = {}
        for stream in sorted(self._query.own & self.lane.outputs.keys()):
            name = self.lane.system(stream)
            ends = self._place.systems.named(name).high_watermarks(stream)
            found |= texts({SSP(system=name, stream=stream, partition=p): end for p, end in ends.items()})
        return found

    def _positions(self, folder: Folder) -> Offsets:
        return self._wholes(folder.positions())

    def _wholes(self, held: Mapping[str, Mapping[int, int]]) -> Offsets:
        return {
            ssp.whole: held.get(ssp.stream, {}).get(ssp.partition, self._starting.get(ssp.whole, 0))
            for ssp in (*self.lane.ssps, *self.lane.broadcast)
        }

    def _tell(self, **changes: Any) -> None:
        held = {name: getattr(self._report, name) for name in self._report.__struct_fields__}
        self._report = LaneReport(**{**held, **changes})
        if not _URGENT.isdisjoint(changes):
            self._wake()
