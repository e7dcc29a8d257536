"""Which factor a job should have, by how its lanes cope: the coordinator's own autosizer. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from anabranch.config import AutoscaleSettings
from anabranch.coordinator.states import DeploymentState
from anabranch.event_time import durations
from anabranch.messages import JobStatus, LaneReport, LaneStatus
from anabranch.model.factor import FACTORS

__all__ = ["Verdict", "decide", "limits_of"]

_SPAN = 20.0
"""Figures of fewer seconds decide nothing."""
_MOST = 4
"""A change makes the factor at most so many times larger or smaller."""
_LESS = 0.8
"""The factor falls if less than this part of the target would come of it: so it doesn't rise again at once."""
_BEHIND = 30.0
"""A busy lane that takes longer to read what it is behind has too much to do."""
_FULL = 0.9
_SOME = 0.05
"""Where functions work for less of the time on their busiest bucket, they aren't what holds a lane up."""
_AFTER_UNDONE = 10
"""After a change that was undone, there is none for so many times the cooldown."""


@dataclass(frozen=True)
class Verdict:
    """``factor``: what the job should have from now on; None: what it has. ``why``: in words, with the figures."""

    factor: int | None
    why: str


@dataclass(frozen=True)
class _Load:
    """How much there is to do: 1 is all that the busiest bucket can, above 1 more than that."""

    load: float
    why: str


def limits_of(settings: Mapping[str, Any]) -> AutoscaleSettings | None:
    """What the settings of a job (as they are handed over) say; None: it isn't scaled by the coordinator."""
    given = settings.get("job", {}).get("autoscale")
    return None if given is None else AutoscaleSettings(**given)


def decide(limits: AutoscaleSettings, status: JobStatus, since: float, undone: bool) -> Verdict:
    """The factor that a job should have.

    The factor of a lane helps its Python functions only, so they decide: how much of the time they work on the bucket
    that they work on most. In a lane that is behind and can't keep up, they have as much more to do as more comes in
    than is read.

    Args:
        since: the seconds since the job has changed last, by whomever, or was started.
        undone: that change was undone.
    """
    held = _held(limits, status, since, undone)
    if held:
        return Verdict(None, held)
    loads = [_load(each, each.report) for each in status.lanes if each.report is not None]
    most = max(loads, key=lambda each: each.load)
    target, now = limits.target_busy, status.factor
    choices = [factor for factor in FACTORS if limits.min <= factor <= limits.max and now <= factor * _MOST]
    if most.load > target:
        larger = [factor for factor in choices if now < factor <= now * _MOST]
        if not larger:
            return Verdict(None, f"{most.why}; the target is {target:.0%}, and factor {now} is the largest allowed")
        wanted = next((factor for factor in larger if most.load * now / factor <= target), larger[-1])
        return Verdict(wanted, f"{most.why}; the target is {target:.0%}")
    least = target * _LESS
    smaller = next((factor for factor in choices if factor < now and most.load * now / factor <= least), None)
    if smaller is None:
        return Verdict(None, f"{most.why}; the target is {target:.0%}")
    would = f"{most.load * now / smaller:.0%} with factor {smaller}"
    return Verdict(smaller, f"{most.why}; it would be {would}, and the target is {target:.0%}")


def _held(limits: AutoscaleSettings, status: JobStatus, since: float, undone: bool) -> str:
    """Why nothing can be decided now; '' if it can."""
    if status.state != DeploymentState.RUNNING:
        return f"the job is {status.state}"
    if not limits.min <= status.factor <= limits.max:
        return f"factor {status.factor} isn't from {limits.min} to {limits.max}: a job that was scaled so is left so"
    cooldown = durations.parse(limits.cooldown) / 1000 * (_AFTER_UNDONE if undone else 1)
    if since < cooldown:
        what = "the last change was undone" if undone else "the job has changed or started"
        return f"{what} {max(0, since):.0f} s ago: it is left alone for {cooldown:.0f} s"
    alive = {container.seat for container in status.containers if container.alive}
    for lane in status.lanes:
        report = lane.report
        if report is None or report.phase != "running" or lane.lane.seat not in alive:
            return f"lane {lane.lane.id} doesn't run, or isn't heard"
        if report.span < _SPAN:
            return f"the figures of lane {lane.lane.id} are of {report.span:.0f} s: too few"
    return "" if status.lanes else "there are no lanes"


def _load(lane: LaneStatus, report: LaneReport) -> _Load:
    work = f"lane {lane.lane.id}: functions work {report.working:.0%} of the time on their busiest bucket"
    behind = lane.lag > report.rows_per_second * _BEHIND and report.busy >= _FULL
    if behind and report.working >= _SOME and report.rows_per_second:
        ratio = report.arriving / report.rows_per_second
        rates = f"{report.arriving:,.0f} a second come in and {report.rows_per_second:,.0f} are read"
        return _Load(max(1.0, ratio), f"{work}, and it is {lane.lag:,} records behind: {rates}")
    return _Load(report.working, work)
