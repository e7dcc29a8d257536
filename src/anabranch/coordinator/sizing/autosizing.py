"""Decides which factor a job should have, based on the load of its lanes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from anabranch.config import AutoscaleSettings, JobSettings
from anabranch.coordinator.sizing import lane_load, report_history
from anabranch.coordinator.sizing.findings import Findings, RejectedFactor, Streak
from anabranch.coordinator.sizing.lane_load import LaneLoad
from anabranch.coordinator.sizing.needed_factor import FactorNeed, FactorTarget, need_of
from anabranch.coordinator.sizing.report_history import ReportHistory
from anabranch.coordinator.sizing.scalability import UNKNOWN, Scalability
from anabranch.event_time import durations
from anabranch.model.deployment_state import DeploymentState
from anabranch.model.factor import FACTORS
from anabranch.model.lane import Lane
from anabranch.protocol.lane_report import BatchPhase, LanePhase, LaneReport
from anabranch.protocol.status import JobStatus, LaneStatus

__all__ = ["Assessment", "Verdict", "cooldown_seconds", "decide", "limits_of", "looked", "outside", "threads_of"]

_SURE, _SURE_OF_WORK = 2.0, 10.0
"""For this many seconds, all looks at the job must have found the factor too small before it is raised. ``_SURE``
applies if records wait too long, and ``_SURE_OF_WORK`` if functions merely work too much.
"""
_LOOKS = 3
_SPAN, _SPAN_OF_WORK = 20.0, 10.0
"""How many seconds the metrics must cover before the factor changes. ``_SPAN`` applies if the factor is lowered.
``_SPAN_OF_WORK`` applies if the factor is raised although no records wait too long.
"""
_SPACING = 10.0
_PAUSES = 3
"""After a change, the factor isn't raised until the effect of the change can be seen, even if records wait. The effect
can be seen after ``_SPACING`` seconds, or after ``_PAUSES`` times the pause of a change, whichever is longer.
"""
_MOST = 4
"""A single step divides the factor by at most this number."""
_STALE = 5.0
"""A lane's metrics count as out of date if they are at least this many seconds old. Nothing is concluded from metrics
that are out of date. The metrics of a lane without load don't change, but they never count as out of date.
"""
_AFTER_UNDONE = 10
"""After a change has been undone, the factor isn't changed for this many cooldowns."""
_REMEMBERED = 10
"""The number of cooldowns for which experience with a factor counts."""
_REGRETS = 3
_SHUNNED = 30
_MUCH_LESS = 0.6
"""If the factor falls, and rises again within ``_REGRETS`` cooldowns plus ``_SPAN`` seconds, the lower factor was too
small. For the next ``_SHUNNED`` cooldowns, the factor isn't lowered as far again. This restriction ends earlier if the
arrival rate falls below ``_MUCH_LESS`` times the arrival rate for which the lower factor was too small.
"""
_WORKS = 0.1
"""The speed of functions proves nothing if they work on their busiest bucket for less than this share of the time.
"""


@dataclass(frozen=True)
class Verdict:
    """What the autosizer decides for a job.

    Args:
        factor: the factor that the job should have from now on; None to keep its factor.
        advice: what would help if no factor is sufficient.
        need: the need that ``why`` explains; None if ``why`` explains the largest need.
    """

    factor: int | None
    why: str
    advice: tuple[str, ...] = ()
    need: FactorNeed | None = None


@dataclass(frozen=True)
class Assessment:
    """The result of a look at a job that has the factor ``factor``.

    Args:
        unknown: why nothing can be concluded; empty if conclusions are possible. If nothing can be concluded, the
            fields below have their defaults.
        needs: the need of each lane in ``loads``, in the same order.
        seen: for each need, the experience from which the need was derived.
        span: for how many seconds there are metrics of every lane.
        pause: how many seconds a change would pause the output.
    """

    factor: int
    unknown: str = ""
    loads: tuple[LaneLoad, ...] = ()
    needs: tuple[FactorNeed, ...] = ()
    seen: tuple[Scalability, ...] = ()
    span: float = 0.0
    pause: float = 0.0

    @property
    def most(self) -> FactorNeed:
        """The need of the lane that needs the largest factor. If several lanes need the same largest factor, this is
        the most pressing of their needs.
        """
        return max(self.needs, key=lambda each: (each.factor, not each.enough, each.urgent, each.now))

    @property
    def pressing(self) -> FactorNeed | None:
        """Among the lanes whose records would wait too long, and for which a larger factor would help, the need of the
        lane that needs the largest factor. None if there is no such lane.
        """
        urgent = (each for each in self.needs if each.urgent and each.factor > self.factor)
        return max(urgent, key=lambda each: (each.factor, each.now), default=None)

    def load_with(self, need: FactorNeed) -> LaneLoad:
        """The load of the lane that has this need."""
        return self.loads[self.needs.index(need)]

    @property
    def advice(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(text for each in self.needs for text in each.advice))


def limits_of(settings: Mapping[str, Any]) -> AutoscaleSettings | None:
    """The limits for autoscaling in a job's stored settings; None if the coordinator doesn't scale the job."""
    given = settings.get("job", {}).get("autoscale")
    return None if given is None else AutoscaleSettings(**given)


def threads_of(settings: Mapping[str, Any]) -> int:
    """How many buckets of a partition a job's functions can work on at once."""
    threads: int = settings.get("job", {}).get("threads", JobSettings().threads)
    return threads


def _aim(limits: AutoscaleSettings, factor: int, pause: float, too_small: int) -> FactorTarget:
    allowed = {each for each in FACTORS if limits.min <= each <= limits.max and each > too_small} | {factor}
    return FactorTarget(limits.target_busy, limits.target_lag_seconds, pause, sorted(allowed))


def looked(
    limits: AutoscaleSettings, status: JobStatus, threads: int, pause: float, before: Findings, now: float
) -> tuple[Assessment, Findings]:
    """Assess a job's current metrics. Returns the assessment and the new findings. Call this once a second, with the
    findings of the previous call.

    Args:
        pause: how many seconds a change would pause the output.
        now: the current time, in seconds, on the same clock at every look.
    """
    after = _listened(before, status, cooldown_seconds(limits), now)
    unknown = _unknown(status, after, now)
    if unknown:
        return Assessment(status.factor, unknown), after.inconclusive
    quiet = _quiet(status, after, now)
    if quiet:  # the metrics may still be true, so findings other than those about rising still count
        return Assessment(status.factor, quiet), replace(after, rising=Streak(), pressing=Streak())
    cooldown = cooldown_seconds(limits)
    loads = [
        (_key(each.lane), lane_load.load_of(each, after.heard[each.lane.id], status.factor, threads))
        for each in status.lanes
        if each.report is not None
    ]
    vague = next((load.lane for _, load in loads if load.behind and not load.sure), "")
    if vague:
        why = f"lane {vague}: its batches are too short yet to tell what takes the time"
        return Assessment(status.factor, why), after.inconclusive
    arriving, too_small = sum(load.arriving for _, load in loads), after.too_small
    if too_small and (arriving < _MUCH_LESS * too_small.arriving or now > too_small.at + _SHUNNED * cooldown):
        too_small = None
    aim = _aim(limits, status.factor, pause, 0 if too_small is None else too_small.factor)
    seen = {key: each.since(now - _REMEMBERED * cooldown) for key, each in after.seen.items()}
    for key, load in _hottest(loads).items():
        seen[key] = seen.get(key, UNKNOWN).seen(status.factor, load.steady_hot, now)
        if load.crowd:
            seen[key] = seen[key].crowded(load.crowd)
    known = tuple(seen.get(key, UNKNOWN) for key, _ in loads)
    needs = tuple(need_of(load, its, aim) for (_, load), its in zip(loads, known, strict=True))
    span = min(each.report.load.span for each in status.lanes if each.report is not None)
    look = Assessment(status.factor, "", tuple(load for _, load in loads), needs, known, span, pause)
    wanted = look.most.factor
    return look, replace(
        after,
        seen=seen,
        arriving=arriving,
        too_small=too_small,
        rising=after.rising.looked(wanted > status.factor, now),
        pressing=after.pressing.looked(look.pressing is not None, now),
        falling=after.falling.looked(wanted < status.factor, now),
        advising=after.advising.looked(bool(look.advice), now),
        falls_to=max(wanted, after.falls_to if after.falling.looks else 0),
    )


def decide(
    limits: AutoscaleSettings,
    status: JobStatus,
    since: float,
    undone: float,
    look: Assessment,
    after: Findings,
    now: float,
) -> Verdict:
    """The factor that a job should have, given ``look`` and ``after``, the results of :func:`looked`.

    If records would wait too long, the factor can be raised as soon as the effect of the last change can be seen.
    Otherwise, the factor is changed only after the cooldown. In a deployment's first generation, however, the factor
    can be raised before the cooldown is over. After a change has been undone, the factor isn't changed for ten
    cooldowns, whatever the job needs.

    Args:
        since: the seconds since the job's state last changed, for example at the end of a change.
        undone: the seconds since a change was last undone; infinity if none was.
    """
    if look.unknown:
        return Verdict(None, look.unknown)
    held = _held(limits, status, undone)
    if held:
        return Verdict(None, held, look.advice)
    need, cooldown = look.most, cooldown_seconds(limits)
    patience = max(0.0, cooldown - since)
    if need.factor > status.factor:
        return _raised(status, patience, look, after, now)
    if need.factor < status.factor and after.falling.since is not None:
        wait = max(patience, cooldown - (now - after.falling.since), _SPAN - look.span)
        if wait > 0:
            return Verdict(None, f"{need.why}; if this is still the case in {wait:.0f} s", look.advice)
        if not all(load.settled for load in look.loads):
            return Verdict(None, f"{need.why}; once the waiting records are done", look.advice)
        least = max(after.falls_to, status.factor // _MOST, limits.min)
        return Verdict(least if least < status.factor else None, need.why, look.advice)
    return Verdict(None, need.why, look.advice)


def _raised(status: JobStatus, patience: float, look: Assessment, after: Findings, now: float) -> Verdict:
    """What to do about a factor that is too small. The job may have to wait before it gets the largest factor that any
    lane needs. Until then, the job can get the factor that is needed by the lanes whose records would wait too long.

    Args:
        patience: how many seconds of the cooldown are left.
    """
    need, pressing = look.most, look.pressing
    spacing = max(_SPACING, _PAUSES * look.pause) - (now - after.changed)
    if spacing > 0:
        return Verdict(None, f"{need.why}; the effect of the last change is known in {spacing:.0f} s", look.advice)
    waits = ""
    if patience > 0 and status.generation > 1:
        waits = f"the factor stays for {patience:.0f} s after the last change"
    elif not after.rising.lasts(_LOOKS, _SURE_OF_WORK, now):
        waits = f"this must be the case for {_SURE_OF_WORK:.0f} s"
    elif look.span < _SPAN_OF_WORK:
        waits = f"its figures cover only {look.span:.0f} s"
    if not waits:
        return Verdict(need.factor, need.why, look.advice)
    if pressing is None:
        return Verdict(None, f"{need.why}; {waits}", look.advice)
    if not after.pressing.lasts(_LOOKS, _SURE, now):
        return Verdict(None, f"{pressing.why}; this must be the case for {_SURE:.0f} s", look.advice, pressing)
    return Verdict(pressing.factor, pressing.why, look.advice, pressing)


def outside(limits: AutoscaleSettings, job: str, factor: int) -> str:
    """The message for a factor outside the limits: why the autosizer leaves the factor alone, and what the user can do.
    Empty if the factor is within the limits.
    """
    if limits.min <= factor <= limits.max:
        return ""
    nearest = min(max(factor, limits.min), limits.max)
    return (
        f"factor {factor} isn't from {limits.min} to {limits.max}, so it stays; "
        f"to let the autosizer choose again: anabranch scale {job} --factor {nearest}"
    )


def _held(limits: AutoscaleSettings, status: JobStatus, undone: float) -> str:
    """Why the factor isn't changed, no matter what the job needs; empty if it can be changed."""
    if kept := outside(limits, status.job, status.factor):
        return kept
    patience = cooldown_seconds(limits) * _AFTER_UNDONE
    if undone < patience:
        return f"a change was undone {max(0, undone):.0f} s ago: the factor stays for {patience:.0f} s"
    return ""


def _unknown(status: JobStatus, heard: Findings, now: float) -> str:
    """Why nothing can be concluded about a job; empty if conclusions are possible."""
    if status.state != DeploymentState.RUNNING:
        return f"the job is {status.state}"
    alive = {container.seat for container in status.containers if container.alive}
    for lane in status.lanes:
        report = lane.report
        if report is None or report.phase != LanePhase.RUNNING or lane.lane.seat not in alive:
            return f"lane {lane.lane.id} doesn't run, or its container sends no heartbeats"
        unknown = _unclear(lane, report, heard.heard[lane.lane.id], now)
        if unknown:
            return f"lane {lane.lane.id}: {unknown}"
    return "" if status.lanes else "there are no lanes"


def _unclear(lane: LaneStatus, report: LaneReport, heard: ReportHistory, now: float) -> str:
    """Why a lane's metrics are inconclusive; empty if they are conclusive."""
    progress = report.progress.batch_progress
    if not report.load.span and progress is None:
        return "there are no figures yet"
    if not report.progress.ends_known:
        return "how many records wait isn't known: its inputs don't report their end offsets"
    if not lane.lag:
        return ""
    if now - heard.at >= _STALE:
        return f"its figures are {now - heard.at:.0f} s old"
    if progress is not None and progress.phase != BatchPhase.FUNCTIONS and now - heard.moved >= _STALE:
        return f"it has made no progress for {now - heard.moved:.0f} s: it waits for {progress.phase}"
    if not report.load.rows_per_second and not (progress is not None and progress.done):
        return "its speed isn't known yet"
    return ""


def _quiet(status: JobStatus, heard: Findings, now: float) -> str:
    """A message about a lane that may be frozen: no records wait, and the lane has load, but its reports haven't
    changed for a while. Empty if there is no such lane.
    """
    for lane in status.lanes:
        its = heard.heard[lane.lane.id]
        if not lane.lag and (its.report.load.arriving or its.report.load.working) and now - its.at >= _STALE:
            return f"lane {lane.lane.id}: its figures are {now - its.at:.0f} s old"
    return ""


def _listened(before: Findings, status: JobStatus, cooldown: float, now: float) -> Findings:
    """The findings, with the latest report of each lane and the job's current generation. If the deployment or the
    number of seats has changed, the former findings are dropped.
    """
    of = (status.deployment, status.seats)
    if before.of != of:
        before = Findings(of=of, generation=status.generation, factor=status.factor)
    if status.generation != before.generation:
        fell, too_small = before.fell, before.too_small
        if status.factor > before.factor and now - fell < _REGRETS * cooldown + _SPAN:
            too_small = RejectedFactor(before.factor, before.arriving, now)
        fell = now if status.factor < before.factor else fell
        before = replace(before, generation=status.generation, factor=status.factor, fell=fell, too_small=too_small)
        before = replace(before, changed=now, rising=Streak(), pressing=Streak(), falling=Streak())
    if status.state != DeploymentState.RUNNING:  # the effect of a change can be seen only after the change is done
        before = replace(before, changed=now if before.changed > -math.inf else before.changed)
    heard = {
        lane.lane.id: report_history.listened(before.heard.get(lane.lane.id), lane.report, now)
        for lane in status.lanes
        if lane.report is not None
    }
    return replace(before, heard=heard)


def _key(lane: Lane) -> tuple[str, str]:
    """A key that lanes of different generations share if they do the same work."""
    return lane.stage, lane.group


def _hottest(loads: Iterable[tuple[tuple[str, str], LaneLoad]]) -> dict[tuple[str, str], LaneLoad]:
    """For each stage and group, the load of the lane whose functions take longest per record. Lanes whose functions
    are busy for less than ``_WORKS`` of the time are left out.
    """
    found: dict[tuple[str, str], LaneLoad] = {}
    for key, load in loads:
        if load.steady_hot > 0 and max(load.working, load.share) >= _WORKS:
            found[key] = max(load, found.get(key, load), key=lambda each: each.steady_hot)
    return found


def cooldown_seconds(limits: AutoscaleSettings) -> float:
    """The length of the cooldown, in seconds. During the cooldown after a change, the factor usually isn't changed
    again.
    """
    return _seconds(limits.cooldown)


@cache
def _seconds(duration: str) -> float:
    return durations.parse(duration) / 1000
