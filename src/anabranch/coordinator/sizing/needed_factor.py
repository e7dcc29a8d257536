"""The factor that a lane needs, why, and what would help if no factor does. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from anabranch.coordinator.sizing import lane_load
from anabranch.coordinator.sizing.lane_load import LaneLoad
from anabranch.coordinator.sizing.scalability import Scalability

__all__ = ["FactorNeed", "FactorTarget", "need_of"]

_LESS = 0.8
"""A smaller factor must need no more than this share of what is allowed, so that it doesn't rise again at once. A
larger one should clear a backlog in this share of the allowed time, because predictions may be slightly wrong.
"""
_GAIN = 0.8
"""A larger factor that doesn't reach the target is worth its pause if at most this share of the time, or work, is
left."""
_NEARLY = 1.1
"""Of factors that differ by less than this, the smallest is chosen."""
_SOON = 2
"""Before the factor is lowered, input is assumed to grow by this multiple of its growth in the last half minute."""
_HELD_UP = 0.5
"""If functions hold a lane up for a smaller share of the time than this, something else does."""


@dataclass(frozen=True, slots=True)
class FactorTarget:
    """The target for a job. ``target``: the share of the time for which functions may work on a bucket. ``lag``: the
    seconds within which a backlog should be gone. ``pause``: the seconds that a change takes. ``factors``: the allowed
    factors, including the present one, in order.
    """

    target: float
    lag: float
    pause: float
    factors: Sequence[int]


@dataclass(frozen=True, slots=True)
class FactorNeed:
    """``factor``: the factor that a lane needs, among the allowed ones. ``urgent``: whether records would wait too long
    with the present one. ``enough``: whether the present one suffices. ``now`` and ``then``: seconds until the backlog
    is gone, with the present factor and with the needed one. ``advice``: what would help if a factor doesn't.
    """

    factor: int
    urgent: bool
    enough: bool
    now: float
    then: float
    why: str
    advice: tuple[str, ...] = ()


def need_of(load: LaneLoad, seen: Scalability, aim: FactorTarget) -> FactorNeed:
    """The factor that a lane needs, estimated from its load and from the speeds ``seen`` at other factors."""
    now = lane_load.catch_up(load, load.factor, 0.0, seen)
    used = lane_load.utilisation(load, load.factor, seen)
    late = load.behind and now > aim.lag
    if not late and used <= aim.target:
        factor = _smaller(load, seen, aim)
        would = lane_load.utilisation(load, factor, seen)
        why = _work(load, used) + ("" if factor == load.factor else f"; it would be {would:.0%} with factor {factor}")
        return FactorNeed(factor, False, True, now, now, f"{why}{_target(load, aim)}")
    factor = _larger(load, seen, aim, late)
    then = lane_load.catch_up(load, factor, aim.pause, seen) if factor != load.factor else now
    met = factor != load.factor and _meets(load, factor, seen, aim, late)
    advice = () if met else _advice(load, seen, aim, factor)
    why = _backlog(load, now, factor, then) if late else _work(load, used)
    return FactorNeed(factor, late, False, now, then, f"{why}{_target(load, aim)}", advice)


def _smaller(load: LaneLoad, seen: Scalability, aim: FactorTarget) -> int:
    """The smallest factor that suffices with certainty: it leaves some time unused, and clears the backlog soon."""
    if load.behind:
        return load.factor
    least, soon = aim.target * _LESS / load.growth**_SOON, aim.lag * _LESS
    for factor in aim.factors:
        used, wait = lane_load.utilisation(load, factor, seen), lane_load.catch_up(load, factor, aim.pause, seen)
        if factor < load.factor and used <= least and wait <= soon:
            return factor
    return load.factor


def _larger(load: LaneLoad, seen: Scalability, aim: FactorTarget, late: bool) -> int:
    """The smallest factor that meets the target; otherwise the smallest one that comes nearest to it, if it is worth
    the pause."""
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
    """The cost of a factor: seconds until the backlog is gone, if that is possible; otherwise seconds of work per
    second.
    """
    if late and any(lane_load.capacity(load, each, seen) > load.arriving for each in aim.factors):
        return lane_load.catch_up(load, factor, 0.0 if factor == load.factor else aim.pause, seen)
    return lane_load.utilisation(load, factor, seen)


def _advice(load: LaneLoad, seen: Scalability, aim: FactorTarget, factor: int) -> tuple[str, ...]:
    """What holds a lane up if a larger factor doesn't help, or not enough."""
    found = []
    if load.share < _HELD_UP and load.rest > load.hot:
        found.append(
            f"lane {load.lane}: Python functions take {load.share:.0%} of its time, and the factor helps nothing else: "
            f"more partitions (it has {load.partitions}) or more containers would"
        )
    elif load.sequential:
        found.append(
            f"lane {load.lane}: a process works on one key after another in each of its lane's state partitions, and "
            "the factor doesn't change that: more containers would help"
        )
    elif load.has_hot_key:
        found.append(
            f"lane {load.lane}: bucket {load.hottest} has {load.skew:.1f} times as much to do as the mean, and a key "
            "is never in two buckets: other keys, or less work for them, would help"
        )
    elif seen.exponent(load.factor) < 1.0:
        found.append(
            f"lane {load.lane}: functions became no faster as they should with factor {load.factor}, so they share "
            "something: the cores of a machine, or what they wait for; more containers, or partitions, would help"
        )
    larger = aim.factors[-1] > load.factor
    if not (load.has_hot_key or load.sequential) and (
        load.factor > load.threads or (larger and load.factor == load.threads)
    ):
        found.append(
            f"lane {load.lane}: functions work on {load.threads} buckets of a partition at once: more job.threads would"
            " help"
        )
    if not found and factor == aim.factors[-1]:
        found.append(f"lane {load.lane}: factor {factor} is the largest allowed")
    return tuple(found)


def _work(load: LaneLoad, used: float) -> str:
    if load.behind:
        return (
            f"lane {load.lane} needs {used:.0%} of its time for the {load.arriving:,.0f} records a second that arrive"
        )
    return f"lane {load.lane}: functions work {load.working:.0%} of the time on their busiest bucket"


def _target(load: LaneLoad, aim: FactorTarget) -> str:
    return f"; the target is {aim.target:.0%}, and no backlog within {aim.lag:,.0f} s"


def _backlog(load: LaneLoad, now: float, factor: int, then: float) -> str:
    rates = f"{load.arriving:,.0f} a second arrive, {load.rate:,.0f} are done"
    ends = f"they are done {_in(now)}"
    if factor != load.factor:
        ends += f", and {_in(then)} with factor {factor}, its pause included"
    return f"lane {load.lane}: {load.backlog:,} records wait, {rates}: {ends}"


def _in(seconds: float) -> str:
    return "never" if math.isinf(seconds) else f"in {seconds:,.0f} s"
