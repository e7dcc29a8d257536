"""Determines the factor that a lane needs, the reason, and what would help if no factor is sufficient."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from anabranch.coordinator.sizing import lane_load
from anabranch.coordinator.sizing.lane_load import LaneLoad
from anabranch.coordinator.sizing.scalability import Scalability

__all__ = ["FactorNeed", "FactorTarget", "need_of"]

_LESS = 0.8
"""The safety margin for inexact predictions. A smaller factor is chosen only if functions would work for this share of
the target or less. Without this margin, the factor would soon rise again. With a larger factor, the lane should work
off its backlog within this share of the target lag.
"""
_GAIN = 0.8
"""A larger factor that misses the target is worth the pause of a change only if the factor reduces the cost to this
share or less. For the cost, see :func:`_cost`.
"""
_NEARLY = 1.1
"""Of the factors that cost at most this multiple of the lowest cost, the smallest is chosen."""
_SOON = 2
"""A smaller factor is chosen on the assumption that the input keeps growing. The assumed growth is the growth in the
last half minute, raised to this power.
"""
_HELD_UP = 0.5
"""If functions take less than this share of the time, and everything else takes longer than functions, functions don't
hold the lane up: everything else does. In all other cases, functions hold the lane up.
"""


@dataclass(frozen=True, slots=True)
class FactorTarget:
    """The target for a job.

    Args:
        target: the maximum share of the time that functions should spend on any one bucket.
        lag: the seconds within which a backlog should be worked off.
        pause: how many seconds a change would pause the output.
        factors: the allowed factors and the current one, in ascending order.
    """

    target: float
    lag: float
    pause: float
    factors: Sequence[int]


@dataclass(frozen=True, slots=True)
class FactorNeed:
    """What a lane needs.

    Args:
        factor: the factor that the job should have for this lane.
        urgent: whether records would wait too long with the current factor.
        enough: whether the current factor suffices.
        now: the seconds until the backlog is worked off with the current factor; infinite if the backlog doesn't
            shrink.
        why: the metrics from which ``factor`` follows, as human-readable text.
        advice: what would help if no factor is sufficient.
    """

    factor: int
    urgent: bool
    enough: bool
    now: float
    why: str
    advice: tuple[str, ...] = ()


def need_of(load: LaneLoad, seen: Scalability, aim: FactorTarget) -> FactorNeed:
    """What a lane needs, estimated from the lane's load and from ``seen``, the speeds that were observed with other
    factors.
    """
    now = lane_load.catch_up(load, load.factor, 0.0, seen)
    used = lane_load.utilisation(load, load.factor, seen)
    late = load.behind and now > aim.lag
    if not late and used <= aim.target:
        factor = _smaller(load, seen, aim)
        would = lane_load.utilisation(load, factor, seen)
        why = _work(load, used) + ("" if factor == load.factor else f"; it would be {would:.0%} with factor {factor}")
        return FactorNeed(factor, False, True, now, f"{why}{_target(load, aim)}")
    factor = _larger(load, seen, aim, late)
    then = lane_load.catch_up(load, factor, aim.pause, seen) if factor != load.factor else now
    met = factor != load.factor and _meets(load, factor, seen, aim, late)
    advice = () if met else _advice(load, seen, aim, factor)
    why = _backlog(load, now, factor, then) if late else _work(load, used)
    return FactorNeed(factor, late, False, now, f"{why}{_target(load, aim)}", advice)


def _smaller(load: LaneLoad, seen: Scalability, aim: FactorTarget) -> int:
    """The smallest factor below the current one that meets the target with a margin. If there is no such factor, or if
    more records wait than usual, the result is the current factor.
    """
    if load.behind:
        return load.factor
    least, soon = aim.target * _LESS / load.growth**_SOON, aim.lag * _LESS
    for factor in aim.factors:
        used, wait = lane_load.utilisation(load, factor, seen), lane_load.catch_up(load, factor, aim.pause, seen)
        if factor < load.factor and used <= least and wait <= soon:
            return factor
    return load.factor


def _larger(load: LaneLoad, seen: Scalability, aim: FactorTarget, late: bool) -> int:
    """The smallest of the larger factors that meet the target. If no larger factor meets the target, the result is the
    smallest larger factor with nearly the lowest cost (see :func:`_cost`). If no larger factor is worth the pause of a
    change, the result is the current factor.
    """
    larger = [each for each in aim.factors if each > load.factor]
    met = next((each for each in larger if _meets(load, each, seen, aim, late)), None)
    if met is not None:
        return met
    costs = {each: _cost(load, each, seen, aim, late) for each in larger}
    best, present = min(costs.values(), default=math.inf), _cost(load, load.factor, seen, aim, late)
    if math.isinf(best) or best > present * _GAIN:
        return load.factor
    return next(each for each, cost in costs.items() if cost <= best * _NEARLY)


def _meets(load: LaneLoad, factor: int, seen: Scalability, aim: FactorTarget, late: bool) -> bool:
    in_time = not late or lane_load.catch_up(load, factor, aim.pause, seen) <= aim.lag * _LESS
    return in_time and lane_load.utilisation(load, factor, seen) <= aim.target


def _cost(load: LaneLoad, factor: int, seen: Scalability, aim: FactorTarget, late: bool) -> float:
    """The cost of a factor. If the lane is ``late``, and at least one allowed factor lets the lane catch up, the cost
    is the seconds until the backlog is worked off. Otherwise, the cost is the seconds of work per second.
    """
    if late and any(lane_load.capacity(load, each, seen) > load.arriving for each in aim.factors):
        return lane_load.catch_up(load, factor, 0.0 if factor == load.factor else aim.pause, seen)
    return lane_load.utilisation(load, factor, seen)


def _advice(load: LaneLoad, seen: Scalability, aim: FactorTarget, factor: int) -> tuple[str, ...]:
    """Advice for a lane for which no larger factor is sufficient. The advice says what holds the lane up, and what
    would help. It can be empty.
    """
    found = []
    if load.share < _HELD_UP and load.rest > load.hot:
        found.append(
            f"lane {load.lane}: Python functions take {load.share:.0%} of its time, and a factor speeds up nothing "
            f"else; more partitions (it has {load.partitions}) or more containers would help"
        )
    elif load.sequential:
        found.append(
            f"lane {load.lane}: a process works on one key after another in each of its lane's state partitions, and "
            "the factor doesn't change that; more containers would help"
        )
    elif load.has_hot_key:
        found.append(
            f"lane {load.lane}: bucket {load.hottest} has {load.skew:.1f} times as much work as the average, and a key "
            "is never in two buckets; other keys, or less work for each key, would help"
        )
    elif seen.exponent(load.factor) < 1.0:
        found.append(
            f"lane {load.lane}: factor {load.factor} didn't make functions as much faster as it should, so they share "
            "something: the cores of a machine, or what they wait for; more containers or partitions would help"
        )
    larger = aim.factors[-1] > load.factor
    if not (load.has_hot_key or load.sequential) and (
        load.factor > load.threads or (larger and load.factor == load.threads)
    ):
        found.append(
            f"lane {load.lane}: functions work on {load.threads} buckets of a partition at once; more job.threads would"
            " help"
        )
    if not found and factor == aim.factors[-1]:
        found.append(f"lane {load.lane}: factor {factor} is the largest allowed")
    return tuple(found)


def _work(load: LaneLoad, used: float) -> str:
    if load.behind:
        return (
            f"lane {load.lane} needs {used:.0%} of its time for the {load.arriving:,.0f} records that arrive per second"
        )
    return f"lane {load.lane}: functions work {load.working:.0%} of the time on their busiest bucket"


def _target(load: LaneLoad, aim: FactorTarget) -> str:
    return f"; the target is {aim.target:.0%}, and no backlog after {aim.lag:,.0f} s"


def _backlog(load: LaneLoad, now: float, factor: int, then: float) -> str:
    rates = f"{load.arriving:,.0f} arrive and {load.rate:,.0f} are processed per second"
    ends = f"time to catch up: {_shown(now)}"
    if factor != load.factor:
        ends += f"; with factor {factor}: {_shown(then)}, including the pause"
    return f"lane {load.lane}: {load.backlog:,} records wait, {rates}; {ends}"


def _shown(seconds: float) -> str:
    return "unlimited" if math.isinf(seconds) else f"{seconds:,.0f} s"
