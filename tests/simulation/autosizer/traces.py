"""Loads that the autosizer is tried with: some by name, and any number from seeds."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

from anabranch.config import AutoscaleSettings
from tests.simulation.autosizer.simulator import Trace, Work

__all__ = ["KINDS", "even", "limits", "made", "one_hot"]

Rate = Callable[[float], float]


def even(partitions: int = 2, keys: int = 500) -> tuple[tuple[float, ...], ...]:
    """Each key has as many records as any other."""
    return tuple(tuple(1 / partitions / keys for _ in range(keys)) for _ in range(partitions))


def one_hot(share: float, partitions: int = 2, keys: int = 200) -> tuple[tuple[float, ...], ...]:
    """One key has such a part of all records."""
    rest = (1 - share) / (partitions * keys)
    first, *others = even(partitions, keys)
    return ((share, *(rest for _ in first)), *(tuple(rest for _ in each) for each in others))


def limits(max: int = 64, **given: object) -> AutoscaleSettings:
    return AutoscaleSettings(max=max, **{"cooldown": "30 seconds", "target_lag_seconds": 30, **given})


def constant(rate: float) -> Rate:
    return lambda now: rate


def step(first: float, then: float, at: float) -> Rate:
    return lambda now: first if now < at else then


def ramp(first: float, last: float, since: float, until: float) -> Rate:
    return lambda now: first + (last - first) * min(1.0, max(0.0, (now - since) / (until - since)))


def wave(low: float, high: float, period: float) -> Rate:
    return lambda now: low + (high - low) * (1 - math.cos(2 * math.pi * now / period)) / 2


def flapping(low: float, high: float, period: float) -> Rate:
    return lambda now: high if now % period < period / 2 else low


def burst(rate: float, high: float, at: float, seconds: float) -> Rate:
    return lambda now: high if at <= now < at + seconds else rate


def _base(random_: random.Random, seed: int) -> dict[str, object]:
    return {
        "work": Work(random_.choice([0.001, 0.002, 0.005, 0.02]), shares=even(random_.choice([1, 2, 4]))),
        "limits": limits(random_.choice([16, 64, 256]), target_lag_seconds=random_.choice([15, 30, 60])),
        "pause": random_.choice([0.8, 1.5, 3.0, 6.0]),
        "delay": random_.choice([0, 1, 2]),
        "noise": random_.choice([0.0, 0.05, 0.1, 0.2]),
        "seed": seed,
    }


def _once(work: Work) -> float:
    """The records a second that it does with factor 1, about."""
    return 0.85 / (work.function * max(map(sum, work.shares)) + work.jvm)


def made(kind: str, seed: int) -> Trace:
    """A trace of a kind."""
    random_ = random.Random(f"{kind} {seed}")
    base = _base(random_, seed)
    work = base["work"]
    assert isinstance(work, Work)
    name, once = f"{kind} {seed}", _once(work)
    foretold = base["pause"] * random_.choice([0.5, 1.0, 1.5])  # type: ignore[operator]
    given = {"foretold": foretold, **base}

    def trace(seconds: int, arriving: Rate, **more: object) -> Trace:
        return Trace(name, seconds, arriving, **{**given, **more})  # type: ignore[arg-type]

    match kind:
        case "step":
            return trace(240, step(0.3 * once, random_.uniform(1.2, 6) * once, random_.uniform(30, 60)))
        case "fall":
            rate = random_.uniform(1.5, 4) * once
            return trace(300, step(rate, 0.1 * once, random_.uniform(60, 100)))
        case "ramp":
            return trace(240, ramp(0.2 * once, random_.uniform(2, 6) * once, 20, random_.uniform(80, 180)))
        case "wave":
            return trace(480, wave(0.1 * once, random_.uniform(2, 5) * once, 240), turns=4)
        case "burst":
            rate = 0.3 * once
            return trace(260, burst(rate, random_.uniform(5, 15) * once, 40, random_.uniform(10, 30)))
        case "flapping":
            return trace(240, flapping(0.2 * once, random_.uniform(1.5, 4) * once, random_.choice([6, 10, 20])))
        case "steady":
            return trace(200, constant(random_.uniform(0.05, 0.95) * once * random_.choice([1, 1, 4])))
        case "backlog":
            seconds = random_.uniform(100, 900)
            return trace(240, constant(random_.choice([0, 0, 0.3]) * once), backlog=seconds * once)
        case "hot key":
            share = random_.uniform(0.2, 0.5)
            hot = Work(work.function, shares=one_hot(share))
            rate = 0.85 / (work.function * share) * random_.uniform(1.1, 1.6)
            return trace(200, step(0.3 * rate, rate, 30), work=hot, vain=1)
        case "jvm":
            slow = Work(work.function * 0.3, jvm=work.function, shares=even(), pipelined=random_.random() < 0.5)
            return trace(200, step(0.2 * once, 2.5 * _once(slow), 30), work=slow, vain=1)
        case "cores":
            bound = Work(work.function, shares=even(), cpu=True)
            return trace(200, step(0.3 * _once(bound), random_.uniform(1.2, 2) * _once(bound), 30), work=bound, vain=1)
        case "threads":
            few = Work(work.function, shares=even(), threads=4)
            return trace(200, step(0.3 * _once(few), 6 * _once(few), 30), work=few)
        case "halted":
            halt = random_.uniform(30, 70)
            return trace(260, constant(0.4 * once), halts=((50.0, 50.0 + halt),))
        case "silent":
            silence = (random_.uniform(20, 50), random_.uniform(90, 120))
            rate = random_.uniform(0.2, 4) * once
            return trace(240, step(rate, random_.uniform(0.1, 5) * once, 50), silences=(silence,), turns=2)
        case "slower":
            slower = Work(work.function, shares=work.shares, slower=(60.0, random_.uniform(2, 8)))
            return trace(240, constant(0.5 * once), work=slower)
        case "not live":
            return trace(240, step(0.3 * once, random_.uniform(1.5, 4) * once, 40), live=False)
        case "few slots":
            crowded = Work(work.function, shares=even(8), slots=2)
            rate = 0.85 * 2 / work.function * random_.choice([2, 4]) * random_.uniform(0.55, 0.95)
            return trace(400, step(0.2 * rate, rate, 40), work=crowded, turns=3, falls=1)
        case "costly":
            seconds = random_.uniform(60, 120)
            given["limits"] = limits(64, target_lag_seconds=int(seconds * 0.7))
            pause = seconds * random_.uniform(1.2, 2.0)
            return trace(200, constant(0.0), backlog=seconds * once, pause=pause, foretold=pause * 0.95)
        case "odd figures":
            return trace(200, constant(random_.uniform(0.1, 0.55) * once), odd=0.03)
    raise ValueError(kind)


KINDS = (
    "step", "fall", "ramp", "wave", "burst", "flapping", "steady", "backlog",
    "hot key", "jvm", "cores", "threads", "halted", "silent", "slower", "not live",
    "costly", "odd figures", "few slots",
)  # fmt: skip
