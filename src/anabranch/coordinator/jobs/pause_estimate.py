"""How long the output of lanes pauses while others take over from them: predicted from earlier changes, and measured
afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from anabranch.drain_progress import functions_part
from anabranch.model.lane import Lane
from anabranch.pace import breaking_off, speeds
from anabranch.pace.batch_cost import BatchCost
from anabranch.pace.breaking_off import BROKEN_OFF
from anabranch.pace.speeds import FIRST_PART, Speed
from anabranch.protocol.lane_report import LaneReport

__all__ = ["Experience", "Kind", "MeasuredChange", "expected", "kind_of", "without_output"]

_SHORT, _LONG = 1.0, 10.0
"""In seconds. A batch that takes less than the first is never broken off. If batches take less than the second, the
progress of the present one doesn't predict that of the batch during which a plan is carried out.
"""
_NOTICED = 0.2
"""The seconds from a change until lanes notice it."""
_REPORTED_EVERY = 1.0
"""The age, in seconds, that the report of a lane with a running batch has at most."""
_BETWEEN = 1.0
"""The seconds that pass between two batches at most, while records wait."""
_UNSURE = 0.2
"""By how many seconds the age of a batch may be wrong when its lane notices a change."""
_STATE_SPEED = 100e6
"""The bytes of state per second that are copied and opened, until a change has been measured."""
_CONTAINER = 15.0
"""The seconds until a container is ready, until a change has been measured."""
_IN_STEP = 1.0
"""By how many seconds clocks may differ."""
_PATIENCE = 60.0
"""The seconds after a change during which the first output of all lanes is awaited."""
_NEW = 0.5
"""The weight of the newest measurement, compared with earlier ones."""
_AT_MOST = 2.0
"""The factor by which a single change can lengthen or shorten the prediction for the next one, at most."""


class Kind(StrEnum):
    """How the lanes of a change begin. The more a container has to load and compile for them, the longer that takes."""

    SAME = "same"
    """In containers that are already running such lanes."""
    FACTOR = "factor"
    """With another factor, in the same containers."""
    MOVED = "moved"
    """In other containers, which are already running lanes of the job."""
    NEW = "new"
    """In a container that has run no lane of the job, or not of this version of the job."""


_STATELESS = {Kind.SAME: 0.6, Kind.FACTOR: 0.8, Kind.MOVED: 1.0, Kind.NEW: 2.2}
_STATEFUL = {Kind.SAME: 1.2, Kind.FACTOR: 1.2, Kind.MOVED: 2.5, Kind.NEW: 5.0}
"""The seconds of a change beyond those of a usual batch and of copying state, until a change of its kind has been
measured: the lane reports that it has ended, the next ones begin, and their first batch takes longer than others."""


@dataclass(frozen=True)
class Experience:
    """What the job's changes have shown so far.

    Attributes:
        state_speed: bytes of state per second that are copied and opened.
        container: seconds from a change until a container that it needs is ready.
        overhead: by kind, for the kinds that have occurred: the seconds that they took beyond those of a batch, as a
            multiple of the usual seconds.
        speeds: by stage and group, and factor: the batch sizes of lanes that have been closed. From these, the
            containers choose the first batches of later lanes.
    """

    state_speed: float = _STATE_SPEED
    container: float = _CONTAINER
    overhead: Mapping[Kind, float] = field(default_factory=dict)
    speeds: Mapping[tuple[str, str], Mapping[int, Speed]] = field(default_factory=dict)

    def started(self, seconds: float) -> Experience:
        """This experience, including another container that was started for a change."""
        return replace(self, container=self.container * (1 - _NEW) + seconds * _NEW)

    def closed(self, lanes: Iterable[Lane], reports: Mapping[str, LaneReport]) -> Experience:
        """This experience, including the batch sizes of lanes that are closed."""
        found = dict(self.speeds)
        for lane in lanes:
            if lane.id in reports and reports[lane.id].load.limit:
                found[lane.stage, lane.group] = self.known(lane, reports[lane.id])
        return replace(self, speeds=found)

    def known(self, lane: Lane, report: LaneReport) -> Mapping[int, Speed]:
        """The batch sizes of lanes with a lane's operators, by factor, including its own one."""
        own = {lane.factor: Speed(report.load.limit, _partitions(lane))} if report.load.limit else {}
        return {**self.speeds.get((lane.stage, lane.group), {}), **own}

    def slowness(self, kind: Kind) -> float:
        """The time that lanes take to begin, as a multiple of the usual time: as for the last ones of their kind, or
        otherwise all others."""
        if kind in self.overhead or not self.overhead:
            return self.overhead.get(kind, 1.0)
        return math.exp(sum(map(math.log, self.overhead.values())) / len(self.overhead))

    def after(self, change: MeasuredChange, pause: float) -> Experience:
        """This experience, including another change: the difference between its pause and the prediction is attributed
        to its state, if that is large, or otherwise to how its lanes began."""
        off = pause - change.foretold
        if change.state_bytes >= _STATE_SPEED / 10:
            seen = change.state_bytes / max(0.1, change.state_bytes / self.state_speed + off)
            return replace(self, state_speed=self.state_speed ** (1 - _NEW) * seen**_NEW)
        before = self.slowness(change.kind)
        now = before + _NEW * off / _usual(change.kind, change.stateful)
        now = min(max(now, before / _AT_MOST), before * _AT_MOST)
        return replace(self, overhead={**self.overhead, change.kind: now})


def _usual(kind: Kind, stateful: bool) -> float:
    return (_STATEFUL if stateful else _STATELESS)[kind]


def kind_of(closing: Collection[Lane], following: Collection[Lane]) -> Kind:
    """How the lanes that follow others begin."""
    former, next_seats = {lane.seat for lane in closing}, {lane.seat for lane in following}
    if not next_seats <= former or {lane.deployment for lane in closing} != {lane.deployment for lane in following}:
        return Kind.NEW
    if next_seats != former:
        return Kind.MOVED
    return Kind.SAME if {lane.factor for lane in closing} == {lane.factor for lane in following} else Kind.FACTOR


def expected(
    closing: Iterable[Lane],
    reports: Mapping[str, LaneReport],
    kind: Kind,
    shown: Experience | None = None,
    starting: float = 0.0,
    following: Collection[Lane] = (),
    made_at: float | None = None,
) -> float:
    """Seconds between the last rows of closing lanes and the first rows of their successors; 0.0 if none closes.

    Args:
        kind: how the lanes that follow begin.
        shown: what former changes have shown.
        starting: the seconds until all lanes that follow have a container.
        following: these lanes. If they aren't given, their first batches are predicted as for the same factor.
        made_at: when the change is made, in seconds since 1970, if that is now: it meets the present batches. None: it
            is only planned, and will be made at any moment.
    """
    shown = shown or Experience()

    def pause(lane: Lane) -> float:
        begins = _usual(kind, lane.stateful) * shown.slowness(kind)
        report = reports.get(lane.id)
        if report is None:
            return begins
        cost = report.load.cost
        lost = _lost(report, cost) if made_at is None else _lost_now(report, cost, made_at)
        next_lanes = [each for each in following if lane.id in each.predecessors]
        first = _first_batch(lane, report, cost, next_lanes, shown)
        return lost + first + begins + report.progress.state_bytes / shown.state_speed

    return max((max(starting, pause(lane)) for lane in closing), default=0.0)


def _lost(report: LaneReport, cost: BatchCost | None) -> float:
    """Seconds of a batch that bring no output because it is broken off, if that is at any moment."""
    spent, whole = _present_batch(report, cost)
    if report.load.repeats or whole < _SHORT or spent > whole:
        return 0.0
    if whole < _LONG:
        return breaking_off.mean_loss(whole)
    return breaking_off.likelihood(whole, spent, _UNSURE) * (spent + BROKEN_OFF)


def _lost_now(report: LaneReport, cost: BatchCost | None, now: float) -> float:
    """Seconds without output before a batch is broken off; 0.0 if the change waits for it. ``now``: in seconds since
    1970.
    """
    spent, whole = _present_batch(report, cost)
    if report.load.repeats or whole < _SHORT or spent > whole:
        return 0.0
    since = without_output(report, now)
    spent += min(since - spent, _REPORTED_EVERY) / 2 + _NOTICED
    if spent > whole:  # by then another batch has begun, if there is something to read
        since = spent = spent - whole
        whole = _next_batch(report, cost)
    else:
        since += _NOTICED
    return breaking_off.likelihood(whole, spent, _UNSURE) * (since + BROKEN_OFF) if whole else 0.0


def without_output(report: LaneReport, now: float) -> float:
    """How long a lane that had something to read has written nothing, in seconds, at ``now`` in seconds since 1970.

    Machines' clocks may differ, so the time of the last output is believed only as far as the report can be true.
    """
    at = report.progress.batch_progress
    if at is None and not _waiting(report):
        return 0.0
    spent, last = 0.0 if at is None else at.seconds, report.progress.last_output or now
    return min(max(now - last, spent), spent + _REPORTED_EVERY + _BETWEEN)


def _present_batch(report: LaneReport, cost: BatchCost | None) -> tuple[float, float]:
    """How long ago the present batch began when the report was made, and how long it takes, in seconds."""
    at = report.progress.batch_progress
    if at is None:
        return 0.0, _next_batch(report, cost)
    if at.left is not None:
        return at.seconds, at.seconds + at.left
    return at.seconds, report.load.usual_seconds if cost is None else cost.seconds(at.planned)


def _next_batch(report: LaneReport, cost: BatchCost | None) -> float:
    """The seconds of the batch after the one in a report; 0.0 if it would have no records."""
    records = _waiting(report)
    if not records:
        return 0.0
    return report.load.usual_seconds if cost is None else cost.seconds(min(records, report.load.limit or records))


def _waiting(report: LaneReport) -> int:
    """The records that the present batch doesn't read."""
    at, progress = report.progress.batch_progress, report.progress
    behind = sum(max(0, end - progress.positions.get(ssp, end)) for ssp, end in progress.ends.items())
    return max(0, behind - (0 if at is None else at.planned))


def _first_batch(
    lane: Lane, report: LaneReport, cost: BatchCost | None, following: Collection[Lane], shown: Experience
) -> float:
    """Seconds of the first batches of a lane's successors. As far as functions of the job take the time, it depends on
    how many records they have, and on how many buckets these are divided into: see :mod:`anabranch.pace.speeds`.
    """
    known = shown.known(lane, report)
    if cost is None or not known or not following:
        functions = functions_part(report)
        return report.load.usual_seconds * (1 - functions + functions / FIRST_PART)
    longest = 0.0
    for each in following:
        share = _partitions(each) / _partitions(lane)
        buckets = share * (1.0 if report.load.sequential else each.factor / lane.factor)
        records = min(speeds.first(known, each.factor, _partitions(each), quick=False), share * _records(report))
        longest = max(longest, cost.seconds(records / buckets))
    return longest


def _records(report: LaneReport) -> float:
    """The records that a lane and its successors still have to read; infinite if unknown."""
    progress = report.progress
    return sum(max(0, end - progress.positions.get(ssp, 0)) for ssp, end in progress.ends.items()) or math.inf


def _partitions(lane: Lane) -> int:
    return max(1, len({ssp.whole for ssp in lane.ssps}))


@dataclass
class MeasuredChange:
    """A change whose pause is being measured.

    Attributes:
        foretold: the predicted pause, in seconds.
        closing: the lanes that it closes.
        at: when it was accepted, in seconds since 1970.
        kind: how the lanes that follow begin.
        stateful: whether a lane that it closes has state.
        state_bytes: the size of the largest lane's state.
        spent: the seconds for which there had already been no output by then, although there was something to read. If
            the present batch is broken off, they are part of the pause.
    """

    foretold: float
    closing: frozenset[str]
    at: float
    kind: Kind = Kind.SAME
    stateful: bool = False
    state_bytes: int = 0
    spent: float = 0.0
    _last: dict[str, float] = field(default_factory=dict)
    _first: dict[str, float] = field(default_factory=dict)

    def hear(self, lanes: Iterable[Lane], reports: Mapping[str, LaneReport]) -> None:
        """Process the present reports of lanes that close or follow."""
        for lane in lanes:
            report = reports.get(lane.id)
            if report is None:
                continue
            if lane.id in self.closing and report.progress.last_output:
                self._last[lane.id] = report.progress.last_output
            elif report.progress.first_output and not self.closing.isdisjoint(lane.predecessors):
                self._first[lane.id] = report.progress.first_output

    def measured(self, lanes: Iterable[Lane], since: float, whole: float = math.inf) -> float | None:
        """The longest of all pauses, in seconds; None: not known yet; 0.0: no lane had one.

        A pause begins with the last output. If that was before the batch that ran when the change was accepted, there
        was nothing to read, so the pause begins with the change. Lanes that have had nothing to read for a minute don't
        count, nor do lanes for which the pause would be longer than the change, because their machines' clocks differ
        too much or were set meanwhile.

        Args:
            since: the seconds since all lanes have been running.
            whole: the seconds since the change was accepted.
        """
        followers = [lane for lane in lanes if not self.closing.isdisjoint(lane.predecessors)]
        if since < _PATIENCE and any(lane.id not in self._first for lane in followers):
            return None
        pauses = [
            self._first[lane.id] - max(map(self._began, lane.predecessors))
            for lane in followers
            if lane.id in self._first
        ]
        longest = whole + self.spent + _IN_STEP
        return max((pause for pause in pauses if 0.0 < pause <= longest), default=0.0)

    def _began(self, before: str) -> float:
        last = self._last.get(before, self.at)
        return last if last >= self.at - self.spent - _IN_STEP else self.at
