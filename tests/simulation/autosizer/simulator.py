"""A job of one lane whose factor the autosizer chooses: batches, figures as containers tell them, and changes."""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from anabranch.config import AutoscaleSettings
from anabranch.coordinator.sizing import autosizing
from anabranch.coordinator.sizing.findings import Findings
from anabranch.model.deployment_state import DeploymentState
from anabranch.model.lane import Lane
from anabranch.model.ssp import SSP
from anabranch.protocol.lane_report import BatchProgress, LanePhase, LaneReport
from anabranch.protocol.status import ContainerStatus, JobStatus, LaneStatus
from tests.support.reports import lane_report

STEP = 0.5
_WINDOW = 30
_BEFORE, _AFTER = 0.25, 0.15
"""Seconds of a batch before its first record, and after its last one."""
_TARGET_BATCH = 3.0
_FIRST_LIMIT, _GROWS = 100.0, 6.0
SSP_TEXT = "embedded/in/0"


@dataclass(frozen=True)
class Work:
    """What records cost. ``function``: seconds of a function a record; ``jvm``: of all else, a record of the lane, at
    the same time as the functions if ``pipelined``. ``shares``: the part of all records that each key has, by
    partition. ``cpu``: functions use a core each, and all of a partition's buckets share one. ``slots``: so many
    partitions are worked on at once. ``slower``: from when on it takes how many times as long.
    """

    function: float
    jvm: float = 0.0
    pipelined: bool = False
    shares: tuple[tuple[float, ...], ...] = ()
    cpu: bool = False
    threads: int = 64
    slots: int = 64
    slower: tuple[float, float] = (math.inf, 1.0)

    def cost(self, now: float) -> float:
        return self.function * (self.slower[1] if now >= self.slower[0] else 1.0)


@dataclass(frozen=True)
class Trace:
    """A load: ``arriving`` records a second at a time; ``backlog`` of them are there at first.

    ``pause``: what a change takes; ``foretold`` what is believed. ``halts``: from when to when nothing is done, as when
    a broker is away; ``silences``: when no figures come. ``turns``: how often the load turns by itself, for long
    enough that the factor should follow. ``vain``: so many rises may be in vain, and so many falls too deep:
    what they bring can't be seen before. ``delay`` and ``noise`` of the figures, of which a part is ``odd``: far from
    what is; ``live``: they tell of a batch that runs.
    """

    name: str
    seconds: int
    arriving: Callable[[float], float]
    work: Work
    limits: AutoscaleSettings
    backlog: float = 0.0
    factor: int = 1
    pause: float = 1.5
    foretold: float = 1.0
    halts: tuple[tuple[float, float], ...] = ()
    silences: tuple[tuple[float, float], ...] = ()
    turns: int = 1
    vain: int = 0
    falls: int = 0
    delay: int = 1
    noise: float = 0.05
    odd: float = 0.0
    live: bool = True
    seed: int = 0


@dataclass(frozen=True)
class Change:
    at: float
    before: int
    after: int
    why: str
    backlog: float


@dataclass
class Run:
    """What came of a trace, at each second: ``backlogs``, the records that waited; ``factors``; and how many records
    ``arrived`` by then. ``first_figures``: from when on there was something to go by."""

    trace: Trace
    changes: list[Change] = field(default_factory=list)
    backlogs: list[float] = field(default_factory=list)
    factors: list[int] = field(default_factory=list)
    arrived: list[float] = field(default_factory=list)
    advice: set[str] = field(default_factory=set)
    first_figures: float = math.inf


def hottest(work: Work, factor: int) -> float:
    """The part of all records that the bucket with most of them has."""
    return max(max(_buckets(keys, factor)) for keys in work.shares)


def _buckets(keys: Iterable[float], factor: int) -> list[float]:
    parts = [0.0] * factor
    for number, share in enumerate(keys):
        parts[number * 2654435761 % 2**32 % factor] += share
    return parts


def skew(work: Work, factor: int) -> float:
    parts = [part for keys in work.shares for part in _buckets(keys, factor) if part]
    return max(parts) * len(parts) / sum(parts)


class Speeds:
    """How fast the job is with each factor, worked out once a trace."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self._hot: dict[int, tuple[float, float]] = {}

    def hot(self, factor: int) -> float:
        """The part of records in the busiest bucket."""
        return self._of(factor)[0]

    def skew(self, factor: int) -> float:
        return self._of(factor)[1]

    def function(self, factor: int, now: float) -> float:
        """Seconds that functions hold the lane up, a record."""
        work, cost = self.work, self.work.cost(now)
        partition = max(map(sum, work.shares))
        if work.cpu:
            return cost * partition
        at_once = min(factor, work.threads)
        return cost * max(self.hot(factor), partition / at_once, 1 / (at_once * min(work.slots, len(work.shares))))

    def of(self, factor: int, now: float) -> float:
        """Seconds a record."""
        function = self.function(factor, now)
        return max(function, self.work.jvm) if self.work.pipelined else function + self.work.jvm

    def rate(self, factor: int, now: float = 0.0) -> float:
        """Records a second, in batches that are as long as they should be."""
        return (_TARGET_BATCH / (_TARGET_BATCH + _BEFORE + _AFTER)) / self.of(factor, now)

    def _of(self, factor: int) -> tuple[float, float]:
        if factor not in self._hot:
            self._hot[factor] = hottest(self.work, factor), skew(self.work, factor)
        return self._hot[factor]


@dataclass
class _Batch:
    number: int
    rows: float
    begun: float
    before: float = _BEFORE
    after: float = _AFTER
    done: float = 0.0
    functions: float = 0.0


@dataclass(frozen=True)
class _Second:
    at: float
    busy: float
    hot: float
    arrived: float


class Simulated:
    """A lane, from when its query starts."""

    def __init__(self, trace: Trace, speeds: Speeds, factor: int, backlog: float, now: float) -> None:
        self.trace, self.speeds, self.factor = trace, speeds, factor
        self.read, self.ends, self.rows = 0.0, backlog, 0.0
        self.limit = _FIRST_LIMIT
        self.batch: _Batch | None = None
        self.begun = now
        self.number, self.last_seconds, self.last_rate = -1, 0.0, 0.0
        self.usual: deque[float] = deque(maxlen=9)
        self.window: deque[_Second] = deque()
        self._busy = self._hot = self._arrived = 0.0

    @property
    def backlog(self) -> float:
        return self.ends - self.read - (self.batch.done if self.batch else 0.0)

    def pass_by(self, now: float, arrived: float) -> None:
        """A step, at the end of which it is ``now``."""
        self.ends += arrived
        self._arrived += arrived
        left, at = STEP, now - STEP
        halted = any(since <= at < until for since, until in self.trace.halts)
        while left > 1e-9:
            if self.batch is None:
                rows = min(self.ends - self.read, self.limit)
                if rows < 1 or halted:
                    break
                self.number += 1
                self.batch = _Batch(self.number, rows, now - left)
            if halted:
                self._busy += left
                break
            left = self._go_on(self.batch, left, now)

    def _go_on(self, batch: _Batch, left: float, now: float) -> float:
        took = min(left, batch.before)
        batch.before -= took
        self._busy += took
        left -= took
        if left > 1e-9 and batch.done < batch.rows:
            seconds, function = self.speeds.of(self.factor, now), self.speeds.function(self.factor, now)
            took = min(left, (batch.rows - batch.done) * seconds)
            rows = took / seconds
            batch.done = min(batch.rows, batch.done + rows)
            if batch.rows - batch.done < 1e-6:
                batch.done = batch.rows
            work = self.speeds.work
            own = function if work.cpu else work.cost(now) * self.speeds.hot(self.factor)
            self._hot += rows * own
            batch.functions += rows * (function if not work.pipelined or function >= work.jvm else 0.0)
            self._busy += took
            left -= took
        if left > 1e-9 and batch.done >= batch.rows:
            took = min(left, batch.after)
            batch.after -= took
            self._busy += took
            left -= took
            if batch.after <= 1e-9:
                self._commit(batch, now - left)
        return left

    def _commit(self, batch: _Batch, at: float) -> None:
        seconds = max(1e-3, at - batch.begun)
        self.read += batch.rows
        self.rows += batch.rows
        self.last_seconds, self.last_rate = seconds, batch.rows / seconds
        self.usual.append(seconds)
        if batch.rows >= self.limit * 0.99:
            per_row = max(1e-6, seconds - _BEFORE - _AFTER) / batch.rows
            self.limit = min(max(1.0, _TARGET_BATCH / per_row), self.limit * _GROWS)
        self.batch = None

    def second(self, now: float) -> None:
        """Each second."""
        self.window.append(_Second(now, self._busy, self._hot, self._arrived))
        self._busy = self._hot = self._arrived = 0.0
        while len(self.window) > _WINDOW:
            self.window.popleft()

    def report(self, lane: str, now: float, noise: Callable[[], float]) -> LaneReport:
        live = self.trace.live or self.number > 0
        span = float(len(self.window)) if live else 0.0
        figures: dict[str, Any] = {}
        if span:
            figures = {
                "span": span,
                "busy": min(1.0, sum(each.busy for each in self.window) / span),
                "working": min(1.0, sum(each.hot for each in self.window) / span * noise()),
                "arriving": sum(each.arrived for each in self.window) / span * noise(),
            }
        batch = self.batch
        if batch is not None and self.trace.live:
            seconds = now - batch.begun
            phase = "reading" if batch.before > 0 else "functions" if batch.done < batch.rows else "committing"
            if any(since <= now < until for since, until in self.trace.halts):
                phase = "reading"
            figures["batch_progress"] = BatchProgress(
                number=batch.number,
                planned=int(batch.rows),
                done=int(batch.done),
                phase=phase,
                seconds=seconds,
                rows_per_second=batch.done / max(0.1, seconds - _BEFORE),
                spent={"functions": batch.functions, "reading": max(0.0, seconds - batch.functions)},
            )
        usual = sorted(self.usual)
        return lane_report(
            lane=lane,
            phase=LanePhase.RUNNING,
            batch=self.number,
            positions={SSP_TEXT: int(self.read)},
            ends={SSP_TEXT: int(self.ends)},
            rows=int(self.rows),
            rows_per_second=self.last_rate * noise(),
            seconds=self.last_seconds,
            usual_seconds=usual[len(usual) // 2] if usual else 0.0,
            slowest=f"{SSP_TEXT}#3",
            skew=self.speeds.skew(self.factor),
            **figures,
        )


def run(trace: Trace) -> Run:
    """What the autosizer makes of a load."""
    random_ = random.Random(trace.seed)
    speeds = Speeds(trace.work)
    lane, found = Simulated(trace, speeds, trace.factor, trace.backlog, 0.0), Run(trace)
    findings, generation, running_from, changed_at = Findings(), 1, 0.0, 0.0
    told: deque[LaneReport] = deque(maxlen=trace.delay + 1)
    seat = ContainerStatus(container="j:0:1", seat="0", epoch=1, host="h", pid=1)
    partitions = len(trace.work.shares)
    ssps = tuple(SSP(system="embedded", stream="in", partition=number) for number in range(partitions))

    def noise() -> float:
        odd = trace.odd and random_.random() < trace.odd
        return random_.choice([0.1, 6.0]) if odd else 1.0 + random_.uniform(-trace.noise, trace.noise)

    total = trace.backlog
    for tick in range(1, trace.seconds + 1):
        for half in range(int(1 / STEP)):
            now = tick - 1 + (half + 1) * STEP
            arrived = trace.arriving(now) * STEP
            total += arrived
            if now <= running_from:
                lane.ends += arrived
            else:
                lane.pass_by(now, arrived)
        now = float(tick)
        changing = now <= running_from
        name = f"in-{generation:08x}"
        if not changing:
            lane.second(now)
            if not told or not any(since <= now < until for since, until in trace.silences):
                told.append(lane.report(name, now, noise))
        found.backlogs.append(lane.backlog)
        found.factors.append(lane.factor)
        found.arrived.append(total)
        status = JobStatus(
            job="j",
            deployment=1,
            generation=generation,
            state=DeploymentState.CHANGING if changing else DeploymentState.RUNNING,
            factor=lane.factor,
            containers=(seat,),
            lanes=(
                LaneStatus(
                    lane=Lane(id=name, job="j", deployment=1, stage="0", group="g", seat="0", tasks=(), ssps=ssps),
                    report=told[0] if told else None,
                ),
            ),
        )
        look, findings = autosizing.looked(trace.limits, status, trace.work.threads, trace.foretold, findings, now)
        verdict = autosizing.decide(trace.limits, status, now - changed_at, math.inf, look, findings, now)
        found.advice |= set(look.advice)
        if not look.unknown and told:
            found.first_figures = min(found.first_figures, now)
        if verdict.factor is not None:
            found.changes.append(Change(now, lane.factor, verdict.factor, verdict.why, lane.backlog))
            waiting = lane.ends - lane.read
            took = trace.pause
            lane = Simulated(trace, speeds, verdict.factor, waiting, now + took)
            generation, running_from, changed_at = generation + 1, now + took, now + took
            told.clear()
    return found
