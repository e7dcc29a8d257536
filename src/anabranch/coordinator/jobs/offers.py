"""Determines the offer for each seat of a job: what the process in the seat should run. Also keeps the reports of
heartbeats, and makes the answers to heartbeats.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from anabranch.coordinator.jobs import draining, reports, seats, standbys
from anabranch.coordinator.jobs.parts import Offer, Process
from anabranch.coordinator.jobs.reports import LAST_PHASES, LIVE_PHASES
from anabranch.coordinator.jobs.running_job import RUN_STATES, RunningJob
from anabranch.model.deployment_state import DeploymentState
from anabranch.model.lane import Lane, LaneState
from anabranch.protocol.container import Heartbeat, HeartbeatResponse, WantedLane
from anabranch.protocol.lane_report import LaneReport

__all__ = ["answer", "coming", "hear", "hear_figures", "is_told", "of", "renew", "same", "wanted"]


def wanted(job: RunningJob) -> tuple[WantedLane, ...]:
    """The lanes that should run now, in all containers."""
    if not job.state.runs:
        return ()
    drains = draining.of_lane(job.progress.drain, job.state)
    relieved, unready, unprepared = seats.relieved(job), standbys.unready(job), seats.unprepared(job)
    ends = drains is not None or job.terms.until_caught_up
    writing = _writing(job, drains=drains is not None) if ends else set[str]()
    return tuple(
        WantedLane(
            lane=lane,
            upstream_ended=ends and writing.isdisjoint(lane.upstream),
            closing=(
                lane.state is LaneState.CLOSING
                and (lane.deployment == job.deployment or relieved)
                and lane.id not in unready
            ),
            deferred=lane.state is LaneState.CLOSING and lane.id in unprepared,
            now=job.progress.hasty and lane.state is LaneState.CLOSING,
            decision=job.progress.decision(lane.id) if lane.state is LaneState.CLOSING else None,
            draining=None if lane.state is LaneState.CLOSING else drains,
        )
        for lane in job.lanes
        if lane.state in RUN_STATES and lane.start_is_known and not lane.unfenced and not job.ended(lane.id)
    )


def coming(job: RunningJob) -> tuple[Lane, ...]:
    """The lanes that should run once their predecessors are closed, in all containers."""
    return tuple(job.as_held(lane) for lane in job.lanes if lane.state is LaneState.PLANNED and not lane.start_is_known)


def renew(job: RunningJob) -> bool:
    """Determine the offer for each seat. Returns True if any seat has received its first offer, or if any offer is
    news compared with the seat's previous offer: see :meth:`Offer.is_news`.
    """
    holders = {process.record.seat: process.record.deployment for process in job.seats.processes.values()}
    running: dict[str, list[WantedLane]] = {}
    for one in wanted(job):
        if one.lane.deployment == holders.get(one.lane.seat, one.lane.deployment):
            running.setdefault(one.lane.seat, []).append(one)
    later: dict[str, list[Lane]] = {}
    for lane in coming(job) if job.state is DeploymentState.CHANGING else ():
        if lane.deployment == holders.get(lane.seat, lane.deployment):
            later.setdefault(lane.seat, []).append(lane)
    job.standbys.wanted = standbys.wanted(job)
    copies = {
        each.record.seat: job.standbys.wanted.get(each.record.execution, ()) for each in job.seats.processes.values()
    }
    news, busy = False, job.busy_seats
    for seat in busy | holders.keys():
        over = seat in holders and holders[seat] != job.deployment and job.deployment_of(seat) != holders[seat]
        done = job.done or seat not in busy or over
        before, its = job.seats.offers.get(seat), tuple(running.get(seat, ()))
        then, kept = tuple(later.get(seat, ())), copies.get(seat, ())
        hurry = job.progress.at_once and job.state is DeploymentState.STOPPING
        same = before is not None and before.done is done and before.at_once is hurry
        same = same and before is not None and before.copies == kept and before.coming == then
        if same and before is not None and _are_same(before.wanted, its):
            continue
        offer = Offer(job.seats.revision + 1, its, then, kept, done, hurry)
        if before is None or offer.is_news(before):
            news, job.seats.revision = True, offer.revision
        else:
            offer = dataclasses.replace(offer, revision=before.revision)
        job.seats.offers[seat] = offer
    return news


def of(job: RunningJob, process: Process) -> Offer:
    return job.seats.offers[process.record.seat]


def hear_figures(job: RunningJob, process: Process, beat: Heartbeat) -> bool:
    """Keep the reports of a heartbeat if only their metrics are new and no event is due. Returns whether the reports
    were kept.
    """
    news = []
    if standbys.is_news(job, process, beat.copies) or process.prepared != frozenset(beat.prepared):
        return False
    for report in beat.lanes:
        before, lane = job.reports.get(report.lane), job.known.get(report.lane)
        if before is None or lane is None or lane.seat != process.record.seat:
            return False
        if lane.deployment != process.record.deployment:
            return False
        if job.is_news(report):
            if not reports.is_routine(lane, before, report) or job.long_batches.is_due(report):
                return False
            news.append(report)
    if _offered(job, process, news, beat.seen) != process.offered:
        return False
    job.reports.update({report.lane: report for report in news})
    process.copies = beat.copies
    return True


def hear(job: RunningJob, process: Process, news: Sequence[LaneReport], beat: Heartbeat) -> bool:
    """Keep the reports of a heartbeat. Returns True if something has changed: the lanes that the process runs, its
    standbys, or the lanes that it has prepared.
    """
    before, process.offered = process.offered, _offered(job, process, news, beat.seen)
    job.reports.update({report.lane: report for report in news})
    copies = standbys.is_news(job, process, beat.copies)
    process.copies = beat.copies
    prepared, process.prepared = process.prepared, frozenset(beat.prepared)
    return process.offered != before or copies or process.prepared != prepared


def _offered(job: RunningJob, process: Process, news: Sequence[LaneReport], seen: int) -> set[str]:
    """The ids of the lanes that, after a heartbeat, a process might be running or might have been told to run. The
    result is the next value of ``process.offered``.

    A lane stays in the result until the process reports that the lane has ended or failed. There is one exception. If
    the process has seen the current revision, a lane is left out if it is no longer wanted and isn't reported as live.
    The process never started such a lane.

    Args:
        news: the heartbeat's reports that must be processed.
        seen: the revision that the process has seen.
    """
    live = {report.lane for report in news if report.phase in LIVE_PHASES}
    offered = (process.offered | live) - {report.lane for report in news if report.phase in LAST_PHASES}
    offer = of(job, process)
    return offered & (live | offer.lanes) if seen == offer.revision else offered


def is_told(job: RunningJob, process: Process, seen: int) -> bool:
    """Whether a process that has seen the revision ``seen`` knows all of its orders."""
    offer = of(job, process)
    return offer.revision == seen and offer.lanes <= process.offered


def same(job: RunningJob, seen: int, now: float) -> HeartbeatResponse:
    """The answer if there is nothing new since the revision ``seen``."""
    return HeartbeatResponse(alive=True, revision=seen, same=True, watched=now < job.seats.watched_until)


def answer(job: RunningJob, process: Process, seen: int, now: float) -> HeartbeatResponse:
    """The answer to a process that has seen the revision ``seen``. From now on, the lanes of the current offer count as
    offered to the process."""
    offer = of(job, process)
    process.offered |= offer.lanes
    if seen == offer.revision:
        return same(job, seen, now)
    return HeartbeatResponse(
        alive=True,
        revision=offer.revision,
        wanted=offer.wanted,
        coming=offer.coming,
        copies=offer.copies,
        until_caught_up=job.terms.until_caught_up,
        at_once=offer.at_once,
        done=offer.done,
        watched=now < job.seats.watched_until,
    )


def _writing(job: RunningJob, *, drains: bool) -> set[str]:
    """The lanes whose outputs may still grow. In a drain, a lane's outputs may grow until the lane and all lanes that
    continue from it are closed. If the job isn't draining, a lane's outputs may grow until the last lanes that
    continue from it have caught up and ended.
    """
    if drains:
        return job.ancestors(lane.id for lane in job.lanes if lane.state is not LaneState.CLOSED)
    followed = job.followers()
    return job.ancestors(lane.id for lane in job.lanes if lane.id not in followed and not job.caught_up(lane.id))


def _are_same(before: tuple[WantedLane, ...], after: tuple[WantedLane, ...]) -> bool:
    """Whether the orders are the same. Lanes are compared by identity, because comparing the contents of thousands of
    lanes would take too long."""
    if len(before) != len(after):
        return False
    for one, other in zip(before, after, strict=True):
        if one.lane is not other.lane or one.upstream_ended is not other.upstream_ended:
            return False
        if (one.closing, one.deferred, one.now) != (other.closing, other.deferred, other.now):
            return False
        if (one.decision, one.draining) != (other.decision, other.draining):
            return False
    return True
