"""Does periodic work while a lane's query runs: checks the query's progress and the lane's outputs, checks the keys and
the open transactions of the lane's inputs, and renews markers."""

from __future__ import annotations

from functools import partial
from time import monotonic

from pyspark.sql.streaming.query import StreamingQuery

from anabranch import logs
from anabranch.container.blocked_inputs import BlockedInputs
from anabranch.container.lane.attempt import Attempt
from anabranch.container.lane.monitor import Monitor
from anabranch.container.retries import Standstill
from anabranch.errors import StalledError
from anabranch.spark.internals import java, thread_dump
from anabranch.spark.query.query import LaneQuery

__all__ = ["Upkeep"]

_CHECK_EVERY = 5.0
_COMPARE_EVERY = 1.0
_COMPARING_SHARE = 0.05
"""The largest share of the lane's time that may be spent on looking up the ids of the lane's inputs."""

_SAMPLE_EVERY = 30.0
_REFRESH_EVERY = 12 * 3600.0
"""The seconds after which the markers of the lane's slots are renewed, because Kafka forgets old markers."""

log = logs.get_logger()


class Upkeep:
    """Does the periodic work for a lane. Used by the lane's own thread."""

    def __init__(self, attempt: Attempt, monitor: Monitor, standstill: Standstill) -> None:
        self.stalled = False
        self._attempt = attempt
        self._monitor = monitor
        self._standstill = standstill
        self._blocked: BlockedInputs | None = None
        self._about_keys: tuple[str, ...] = ()
        self._refreshed = self._checked = self._sampled = self._compare_at = monotonic()
        self.stand_by()

    def stand_by(self) -> None:
        """Record that the lane isn't expected to make progress at the moment."""
        self._standstill.begin()

    def look(self, query: StreamingQuery) -> None:
        self._monitor.take_progress(query)
        self.check_progress()

    def check_progress(self) -> None:
        """If the lane's position in an SSP with records to read hasn't changed for too long, log the stacks of the
        lane's threads and raise StalledError."""
        lane = self._attempt.lane.id
        why = self._standstill.seen(self._attempt.reporter.current, monotonic())
        if why:
            self.stalled = True
            threads = thread_dump.of_lane(self._attempt.lane_folders.spark, lane)
            log.error("a lane stands still", lane=lane, why=why, threads=threads)
            raise StalledError(f"lane {lane} stands still: {why}", "its threads are in the container's log")

    def turn(self) -> None:
        """Do the periodic work that is due: renew markers, check outputs, and check inputs. Raises StateError if an
        output stream is gone, or an input was deleted and created again."""
        query = self._attempt.query
        if monotonic() > self._refreshed + _REFRESH_EVERY and query is not None:
            query.outputs.refresh()
            self._refreshed = monotonic()
        if monotonic() > self._checked + _CHECK_EVERY:
            self._monitor.outputs.check()
            if query is not None:
                self._look_for_open_transactions(query)
            self._checked = monotonic()
        if query is not None and (now := monotonic()) > self._compare_at:
            self._attempt.inputs.check_ids(self._attempt.folder)
            self._compare_at = monotonic() + max(_COMPARE_EVERY, (monotonic() - now) / _COMPARING_SHARE)
        if monotonic() > self._sampled + _SAMPLE_EVERY and query is not None:
            self.sample(query)

    def sample(self, query: LaneQuery) -> None:
        """Check a sample of the inputs' keys if the lane is stateful and has no warning about keys yet."""
        if query.plan.stateful and not self._about_keys:
            self._about_keys = self._attempt.inputs.warnings(query.plan.own)
            for warning in self._about_keys:
                log.warning(warning, lane=self._attempt.lane.id)
            self._warn()
        self._sampled = monotonic()

    def _look_for_open_transactions(self, query: LaneQuery) -> None:
        attempt = self._attempt
        if self._blocked is None:
            foreign = [ssp for ssp in attempt.inputs.ssps if ssp.stream not in query.plan.own]
            find = partial(java.java_class, attempt.lane_folders.spark)
            self._blocked = BlockedInputs(attempt.lane.id, attempt.lane_folders.systems, foreign, find)
        self._warn()
        self._blocked.look(attempt.reporter.current.progress.positions, monotonic())

    def _warn(self) -> None:
        about_transactions = () if self._blocked is None else self._blocked.warnings
        self._attempt.reporter.update(warnings=(*self._about_keys, *about_transactions))
