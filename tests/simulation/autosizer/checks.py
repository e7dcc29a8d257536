"""What must hold of a run, whatever the load: by what the job really does, which the autosizer can't see."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator
from itertools import pairwise

from anabranch.event_time import durations
from anabranch.model.factor import FACTORS
from tests.simulation.autosizer.simulator import Run, Speeds

__all__ = ["broken"]

_NOTICED = 15.0
"""Seconds until a load that is new is noticed, at most."""
_OVERLOADED = 30.0
"""Seconds until it rises, at most, while it is overloaded:"""
_MORE = 1.1
"""so many times what it does arrives,"""
_ALWAYS = 7.0
"""and more than so many seconds of work wait. As much as two batches always does, so a slight overload can't be told
before."""
_AT_ONCE = 5.0
_GAIN = 1.1
_ROOM = 1.6
"""A factor that does so many times what arrives can catch up."""


def broken(run: Run) -> list[str]:
    """The names of the checks that a run fails, each with what was found."""
    found = []
    for check in (_range, _wavers, _waits, _overload, _in_vain, _pays, _stale, _start, _falls, _idle):
        found += [f"{check.__name__.strip('_')}: {text}" for text in check(run)]
    return found


def _range(run: Run) -> Iterator[str]:
    limits = run.trace.limits
    for change in run.changes:
        if change.after not in FACTORS or not limits.min <= change.after <= limits.max or change.after == change.before:
            yield f"{change.before} → {change.after}"


def _wavers(run: Run) -> Iterator[str]:
    """It turns no more often than the load, and takes few steps each way."""
    ways = [change.after > change.before for change in run.changes]
    turns = sum(before != after for before, after in pairwise(ways))
    if turns > run.trace.turns:
        yield f"{turns} turns: {_history(run)}"
    rises = sum(ways)
    if rises > 4 * (run.trace.turns // 2 + 1):
        yield f"{rises} rises: {_history(run)}"


def _waits(run: Run) -> Iterator[str]:
    """No record waits longer than the target, where a factor can do that; else nearly as short as with the best."""
    trace, speeds = run.trace, Speeds(run.trace.work)
    if trace.silences or trace.name.startswith("costly"):
        return
    largest = trace.limits.max
    lag = trace.limits.target_lag_seconds
    halted = sum(until - since for since, until in trace.halts)
    allowed = 1.25 * lag + 2 * trace.pause + _NOTICED + halted
    if trace.backlog:
        spare = speeds.rate(largest) - trace.arriving(0.0)
        best = trace.backlog / spare if spare > 0 else math.inf
        allowed = max(allowed, 1.6 * best + 2 * trace.pause + _NOTICED)
    peak = max(trace.arriving(float(second)) for second in range(trace.seconds))
    mean = run.arrived[-1] / trace.seconds
    rate = min(speeds.rate(largest, 0.0), speeds.rate(largest, float(trace.seconds)))
    if not trace.backlog and rate < (_ROOM * peak if trace.name.split()[0] != "burst" else _ROOM * mean):
        return
    if trace.name.startswith("burst"):
        allowed += (run.arrived[-1] - mean) / rate
    for second, (arrived, backlog) in enumerate(zip(run.arrived, run.backlogs, strict=True)):
        done = arrived - backlog
        since = bisect_left(run.arrived, done) if done > trace.backlog else 0
        if backlog > 1 and second - since > allowed:
            yield f"{second - since} s at {second}, not {allowed:.0f}: {_history(run)}"
            return


def _overload(run: Run) -> Iterator[str]:
    """It isn't left with more to do than it can for long, where a larger factor would do more."""
    trace, speeds = run.trace, Speeds(run.trace.work)
    if trace.silences or trace.halts or trace.backlog:
        return
    since = 0
    for second, (factor, backlog) in enumerate(zip(run.factors, run.backlogs, strict=True)):
        rate, most = (speeds.rate(each, float(second)) for each in (factor, trace.limits.max))
        if trace.arriving(float(second)) <= _MORE * rate or most < 1.5 * rate or backlog <= _ALWAYS * rate:
            since = second
        elif second - since > _OVERLOADED + trace.pause:
            yield f"for {second - since} s at {second}: {_history(run)}"
            return


def _in_vain(run: Run) -> Iterator[str]:
    """A rise makes the job faster, but for what can't be known before."""
    speeds = Speeds(run.trace.work)
    vain = [
        change
        for change in run.changes
        if change.after > change.before
        and speeds.rate(change.after, change.at) < _GAIN * speeds.rate(change.before, change.at)
    ]
    if len(vain) > run.trace.vain:
        yield f"{len(vain)} rises in vain: {_history(run)}"


def _pays(run: Run) -> Iterator[str]:
    """A rise for a backlog makes it gone sooner, its pause included."""
    trace, speeds = run.trace, Speeds(run.trace.work)
    for change in run.changes:
        arrives = trace.arriving(change.at)
        before, after = (speeds.rate(each, change.at) - arrives for each in (change.before, change.after))
        if (
            not trace.backlog
            or change.after < change.before
            or before <= 0
            or after <= 0
            or change.backlog < 3 * speeds.rate(change.before)
        ):
            continue
        without, with_it = change.backlog / before, trace.pause + (change.backlog + arrives * trace.pause) / after
        if with_it > 0.95 * without:
            yield f"{with_it:.0f} s for {without:.0f}: {_history(run)}"


def _stale(run: Run) -> Iterator[str]:
    """Nothing is decided while no figures come and records wait, nor on those of a time before."""
    for since, until in run.trace.silences:
        for change in run.changes:
            if since + run.trace.delay + 6 <= change.at < until:
                yield f"{change.before} → {change.after} at {change.at:.0f}, silent from {since:.0f} to {until:.0f}"


def _start(run: Run) -> Iterator[str]:
    """A backlog that is there at first makes the factor as large as it must be, at once."""
    trace, speeds = run.trace, Speeds(run.trace.work)
    if not trace.backlog or trace.name.startswith("costly"):
        return

    def clear(factor: int) -> float:
        spare = speeds.rate(factor) - trace.arriving(0.0)
        return trace.backlog / spare if spare > 0 else math.inf

    lag = trace.limits.target_lag_seconds
    if clear(trace.factor) < 1.5 * lag:
        return
    if not run.changes or run.changes[0].at > run.first_figures + _AT_ONCE:
        yield f"nothing within {_AT_ONCE:.0f} s of {run.first_figures:.0f}: {_history(run)}"
        return
    first = run.changes[0].after
    if clear(first) > max(lag, 1.25 * clear(trace.limits.max)):
        yield f"{first} takes {clear(first):.0f} s, not {lag:.0f}: {_history(run)}"


def _falls(run: Run) -> Iterator[str]:
    """A fall leaves the job able to do what arrives, and none is while records wait."""
    speeds, deep = Speeds(run.trace.work), []
    for change in run.changes:
        if change.after < change.before:
            arrives = (run.arrived[int(change.at) - 1] - run.arrived[max(0, int(change.at) - 11)]) / 10
            rate = speeds.rate(change.after, change.at)
            if arrives > rate:
                deep.append(f"to {change.after}, which does {rate:.0f} of {arrives:.0f}: {_history(run)}")
            if change.backlog > 5 * speeds.rate(change.before, change.at):
                yield f"while {change.backlog:.0f} records wait: {_history(run)}"
    yield from deep[run.trace.falls :]


def _idle(run: Run) -> Iterator[str]:
    """A factor that is much too large for long falls."""
    trace, speeds = run.trace, Speeds(run.trace.work)
    if trace.work.cpu or trace.silences:
        return
    seconds = int(4 * durations.parse(trace.limits.cooldown) / 1000 + 30 + 3 * trace.pause)
    last = run.factors[-seconds:]
    if len(run.factors) < 2 * seconds // 2 or len(set(last)) > 1 or last[-1] == trace.limits.min:
        return
    arrives = (run.arrived[-1] - run.arrived[-seconds]) / seconds
    peak = max(trace.arriving(float(second)) for second in range(trace.seconds - seconds, trace.seconds))
    least = speeds.rate(max(trace.limits.min, last[-1] // 4), float(trace.seconds))
    if max(run.backlogs[-seconds:]) < 3 * arrives + 1 and peak < 0.4 * trace.limits.target_busy * least:
        yield f"factor {last[-1]} for {arrives:.0f} records a second: {_history(run)}"


def _history(run: Run) -> str:
    steps = (f"{change.at:.0f} s: {change.before} → {change.after}" for change in run.changes)
    return f"{run.trace.name}: {', '.join(steps) or 'no change'}"
