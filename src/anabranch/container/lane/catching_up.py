"""Finds out whether a lane has caught up with its inputs and must end. This applies only to lanes that don't keep
running."""

from __future__ import annotations

from collections.abc import Mapping

from anabranch import logs
from anabranch.clocks import boottime
from anabranch.container.lane.attempt import Attempt
from anabranch.errors import AnabranchError
from anabranch.model.ssp import SSP, parsed
from anabranch.spark.query import clock

__all__ = ["has_caught_up"]

log = logs.get_logger()


def has_caught_up(attempt: Attempt) -> bool:
    """Whether the lane has nothing left to do; False if that can't be determined."""
    try:
        return _has_read_all(attempt) and _has_told_time(attempt)
    except AnabranchError as error:
        log.debug("whether the lane has caught up isn't known", lane=attempt.lane.id, error=str(error))
        return False


def _has_read_all(attempt: Attempt) -> bool:
    """Whether all inputs have been read. An intermediate stream must have been read completely, after all its writers
    have ended. Any other input must have been read up to ``until``. False if the lane has no ``until``.
    """
    if attempt.until is None:
        return False
    report = attempt.reporter.current
    positions, ends = parsed(report.progress.positions), parsed(report.progress.ends)
    for ssp in (*attempt.lane.ssps, *attempt.lane.broadcast):
        at = positions.get(ssp.whole, attempt.starting.get(ssp.whole, 0))
        if ssp.whole in attempt.until:
            if at < attempt.until[ssp.whole]:
                return False
        elif not attempt.life.upstream_ended() or at < _end_of(attempt, ssp.whole, ends):
            return False
    return True


def _has_told_time(attempt: Attempt) -> bool:
    """Whether the lane's last watermark has been processed and passed on to the lanes that read its output. True if no
    batch was planned."""
    folder, query = attempt.folder, attempt.query
    if folder.planned() < 0:
        return True
    time = clock.read(attempt.clock)
    if time is None and query is not None and query.sources.has_event_time:
        return False
    if time is not None:
        heard = time.heard(attempt.lane_folders.systems.named, time.now(clock.unix_ms(), boottime()))
        if folder.batch(folder.planned()).progress != heard:
            return False
    # With timers of processing time, a batch is always running. The last batch is finished when the lane stops.
    return (query is not None and query.plan.ticks) or folder.settled()


def _end_of(attempt: Attempt, ssp: SSP, ends: Mapping[SSP, int]) -> int:
    # The ends in the report may be older than the news that the writers have ended.
    fresh = attempt.lane_folders.systems.named(ssp.system).high_watermarks(ssp.stream)[ssp.partition]
    return max(fresh, ends.get(ssp, 0))
