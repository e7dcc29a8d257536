"""Predicts, from the reports of lanes and from earlier changes, how long the output of lanes pauses while their
successors take over, and measures the pause afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from anabranch.drain_progress import functions_part
from anabranch.model.lane import Lane
from anabranch.model.ssp import SSP
from anabranch.pace import break_off_cost, stored_sizes
from anabranch.pace.batch_cost import BatchCost
from anabranch.pace.break_off_cost import BROKEN_OFF
from anabranch.pace.stored_sizes import FIRST_PART, StoredSize
from anabranch.protocol.lane_report import LaneReport

__all__ = ["Experience", "Kind", "MeasuredChange", "expected", "kind_of", "without_output"]

_SHORT, _LONG = 1.0, 10.0
"""Durations of batches, in seconds. The prediction assumes that a batch that takes less than ``_SHORT`` isn't broken
off. If batches take less than ``_LONG``, another one may be running when a plan is carried out, so the current batch's
progress isn't used.
"""
_NOTICED, _TAKEN = 0.2, 1.0
"""The assumed seconds from a change until lanes are told to end: usually, and if their successors first take over
slots. A batch that begins meanwhile is brief.
"""
_REPORTED_EVERY = 1.0
"""The assumed maximum age, in seconds, of the report of a lane with a running batch."""
_AFTER_OUTPUT = 0.2
"""The assumed seconds from the output of a batch to the beginning of the next one, while records wait."""
_BETWEEN = 1.0
"""The assumed maximum time, in seconds, between two batches while records wait."""
_UNSURE = 0.2
"""The assumed uncertainty, in seconds, of a batch's age at the time when its lane notices a change."""
_STATE_SPEED = 100e6
"""The assumed bytes of state per second that are copied and opened, as long as this hasn't been measured."""
_LITTLE = 0.1
"""The least seconds that replaying or copying is taken to need."""
_CONTAINER = 15.0
"""The assumed seconds until a container is ready, as long as this hasn't been measured."""
_IN_STEP = 1.0
"""By how many seconds the clocks of machines are assumed to differ at most."""
_PATIENCE = 60.0
"""How many seconds to wait for the first output of all new lanes, once all lanes are running."""
_NEW = 0.5
"""The weight of the newest measurement; all earlier ones together have the rest."""
_AT_MOST = 2.0
"""The largest factor by which a single change can raise or lower the overhead that is expected of later ones."""


class Kind(StrEnum):
    """Where and how the new lanes of a change start. The more their containers must load and compile for this, the
    longer the change pauses output.
    """

    SAME = "same"
    """In the same containers and with the same factor."""
    FACTOR = "factor"
    """In the same containers, with another factor."""
    REPOSITIONED = "repositioned"
    """In the same containers, but some of them not where their predecessors ended, or with other partitions, because of
    a rewind or an expansion. Their queries can't be prestarted.
    """
    MOVED = "moved"
    """In some of the containers that had the closing lanes, but not in all of them."""
    VERSION = "version"
    """With another version of the job, in containers that have been started for it."""
    NEW = "new"
    """At least one lane in a container that had none of the closing lanes."""


_STATELESS = {
    Kind.SAME: 0.6,
    Kind.FACTOR: 0.8,
    Kind.REPOSITIONED: 0.8,
    Kind.MOVED: 0.6,
    Kind.VERSION: 1.6,
    Kind.NEW: 3.2,
}
_STATEFUL = {
    Kind.SAME: 1.2,
    Kind.FACTOR: 1.2,
    Kind.REPOSITIONED: 2.8,
    Kind.MOVED: 3.0,
    Kind.VERSION: 5.0,
    Kind.NEW: 7.5,
}
"""The assumed overhead of a change in seconds, by kind. Measured overheads are multiples of these. The overhead is the
time in addition to a usual batch and to copying state: lanes must report their end, successors must start, and their
first batches take longer than later ones.
"""
_WITHIN = frozenset({Kind.SAME, Kind.FACTOR, Kind.REPOSITIONED})
"""The kinds of changes that happen within containers."""


@dataclass(frozen=True)
class Experience:
    """What has been measured of the job's changes so far.

    Attributes:
        state_speed: the bytes of state per second that are copied and opened.
        replaying: how long replaying changes of state takes, as a multiple of what lanes estimate.
        container: the seconds from a change until a container that the change needs is ready.
        overhead: the measured overhead of changes, by kind, as a multiple of the assumed overhead.
        speeds: the batch sizes of lanes that have been closed, by stage and group, and then by factor. Containers store
            these sizes, too, and derive the first batch sizes of later lanes from them.
    """

    state_speed: float = _STATE_SPEED
    replaying: float = 1.0
    container: float = _CONTAINER
    overhead: Mapping[Kind, float] = field(default_factory=dict)
    speeds: Mapping[tuple[str, str], Mapping[int, StoredSize]] = field(default_factory=dict)

    def started(self, seconds: float) -> Experience:
        """This experience, including the time that another container took to get ready for a change."""
        return replace(self, container=self.container * (1 - _NEW) + seconds * _NEW)

    def closed(self, lanes: Iterable[Lane], reports: Mapping[str, LaneReport]) -> Experience:
        """This experience, including the batch sizes of lanes that are closed."""
        found = dict(self.speeds)
        for lane in lanes:
            if lane.id in reports and reports[lane.id].load.limit:
                found[lane.stage, lane.group] = self.known(lane, reports[lane.id])
        return replace(self, speeds=found)

    def known(self, lane: Lane, report: LaneReport) -> Mapping[int, StoredSize]:
        """The batch sizes that are known for a lane's stage and group, by factor, including the lane's own."""
        own = {lane.factor: StoredSize(report.load.limit, _partitions(lane))} if report.load.limit else {}
        return {**self.speeds.get((lane.stage, lane.group), {}), **own}

    def loading(self, report: LaneReport) -> float:
        """The expected seconds until a successor of a lane has loaded its state."""
        its = report.progress
        return its.state_bytes / self.state_speed + its.replay_seconds * self.replaying

    def slowness(self, kind: Kind) -> float:
        """The expected overhead of a change of this kind, as a multiple of the assumed overhead. If no such change has
        been measured, it is the geometric mean over the kinds that have been; 1.0 if there are none. The square root is
        taken of it unless all these changes are within containers, because changes that involve several containers
        differ much, and changes within containers say little about them.
        """
        if kind in self.overhead or not self.overhead:
            return self.overhead.get(kind, 1.0)
        alike = [times for known, times in self.overhead.items() if (known in _WITHIN) == (kind in _WITHIN)]
        known = alike or [*self.overhead.values()]
        mean = sum(map(math.log, known)) / len(known)
        return math.exp(mean if alike and kind in _WITHIN else mean / 2)

    def after(self, change: MeasuredChange, pause: float) -> Experience:
        """This experience, including another change. The difference between pause and prediction is attributed to what
        was expected to take the longest: replaying changes of state, copying state, or the overhead.
        """
        off = pause - change.foretold
        before = self.slowness(change.kind)
        replay, copy = change.replay_seconds * self.replaying, change.state_bytes / self.state_speed
        overhead = _usual(change.kind, change.stateful) * before
        if replay > max(copy, overhead):
            longer = max(_LITTLE, replay + off) / change.replay_seconds
            return replace(self, replaying=self.replaying ** (1 - _NEW) * longer**_NEW)
        if copy > overhead:
            seen = change.state_bytes / max(_LITTLE, copy + off)
            return replace(self, state_speed=self.state_speed ** (1 - _NEW) * seen**_NEW)
        now = before + _NEW * off / _usual(change.kind, change.stateful)
        now = min(max(now, before / _AT_MOST), before * _AT_MOST)
        return replace(self, overhead={**self.overhead, change.kind: now})


def _read(lanes: Iterable[Lane]) -> set[SSP]:
    return {ssp.whole for lane in lanes for ssp in (*lane.ssps, *lane.broadcast)}


def _usual(kind: Kind, stateful: bool) -> float:
    return (_STATEFUL if stateful else _STATELESS)[kind]


def kind_of(closing: Collection[Lane], following: Collection[Lane]) -> Kind:
    """The kind of a change, given the lanes that close and the lanes that start."""
    if {lane.deployment for lane in closing} != {lane.deployment for lane in following}:
        return Kind.VERSION
    former, next_seats = {lane.seat for lane in closing}, {lane.seat for lane in following}
    if not next_seats <= former:
        return Kind.NEW
    if next_seats != former:
        return Kind.MOVED
    if any(lane.rewind is not None for lane in following) or _read(closing) != _read(following):
        return Kind.REPOSITIONED
    return Kind.SAME if {lane.factor for lane in closing} == {lane.factor for lane in following} else Kind.FACTOR


def expected(
    closing: Iterable[Lane],
    reports: Mapping[str, LaneReport],
    kind: Kind,
    shown: Experience | None = None,
    starting: float = 0.0,
    following: Collection[Lane] = (),
    made_at: float | None = None,
    *,
    hasty: bool = False,
) -> float:
    """The longest expected time, in seconds, between the last rows of a closing lane and the first rows of its
    successors; 0.0 if no lane closes.

    Args:
        shown: what was measured during earlier changes.
        starting: the seconds until all successors have a container.
        following: the successors. If they aren't given, their first batches are predicted as for the same factor.
        made_at: the current time, in seconds since 1970, if the change is made now; None if it is only planned. Lanes
            of another version of the job close later: once containers with its code are ready.
        hasty: whether a change that is made now breaks off every running batch, whatever is lost or repeated.
    """
    shown = shown or Experience()

    def pause(lane: Lane) -> float:
        begins = _usual(kind, lane.stateful) * shown.slowness(kind)
        report = reports.get(lane.id)
        if report is None:
            return begins
        cost = report.load.cost
        next_lanes = [each for each in following if lane.id in each.predecessors]
        later = made_at is None or any(each.deployment != lane.deployment for each in next_lanes)
        lost = _lost(report, cost) if later else _lost_now(report, cost, made_at or 0.0, hasty)
        first = _first_batch(lane, report, cost, next_lanes, shown)
        return lost + first + begins + shown.loading(report)

    return max((max(starting, pause(lane)) for lane in closing), default=0.0)


def _lost(report: LaneReport, cost: BatchCost | None) -> float:
    """The expected seconds that are lost because a change at an unknown time may break off a lane's batch."""
    spent, whole = _present_batch(report, cost)
    if report.load.repeats or whole < _SHORT or spent > whole:
        return 0.0
    if whole < _LONG:
        return break_off_cost.mean_loss(whole, _noticed_after(report), gradual=report.load.gradual)
    return break_off_cost.likelihood(whole, spent, _UNSURE, gradual=report.load.gradual) * (spent + BROKEN_OFF)


def _lost_now(report: LaneReport, cost: BatchCost | None, now: float, hasty: bool) -> float:
    """The expected seconds without output until a change at ``now`` (in seconds since 1970) has broken off a batch; 0.0
    if it breaks off none.
    """
    spent, whole = _present_batch(report, cost)
    is_late = spent > whole
    if whole < _SHORT or (not hasty and (report.load.repeats or is_late)):
        return 0.0
    since = without_output(report, now)
    delay = _noticed_after(report)
    spent += min(max(0.0, since - spent - _AFTER_OUTPUT), _REPORTED_EVERY) + delay
    if spent > whole and not is_late:  # by then, another batch may have begun, which is brief
        return spent - whole + BROKEN_OFF if hasty and _next_batch(report, cost) else 0.0
    gradual = report.load.gradual
    likelihood = 1.0 if hasty else break_off_cost.likelihood(whole, spent, _UNSURE, gradual=gradual)
    return likelihood * (since + delay + BROKEN_OFF)


def _noticed_after(report: LaneReport) -> float:
    """The seconds from a change until the lane is told to end."""
    return _TAKEN if report.load.slots else _NOTICED


def without_output(report: LaneReport, now: float) -> float:
    """For how many seconds, at ``now`` (in seconds since 1970), a lane has written nothing although there were records
    to read. Clocks of machines can differ, so the result is at least the age that the running batch has in the
    report (0.0 if no batch is running), and at most two seconds more.
    """
    at = report.progress.batch_progress
    if at is None and not _waiting(report):
        return 0.0
    spent, last = 0.0 if at is None else at.seconds, report.progress.last_output or now
    return min(max(now - last, spent), spent + _REPORTED_EVERY + _BETWEEN)


def _present_batch(report: LaneReport, cost: BatchCost | None) -> tuple[float, float]:
    """The age of the running batch at the time of the report, and its whole duration, in seconds. If no batch was
    running, 0.0 and the duration of the next batch.
    """
    at = report.progress.batch_progress
    if at is None:
        return 0.0, _next_batch(report, cost)
    if at.left is not None:
        return at.seconds, at.seconds + at.left
    return at.seconds, report.load.usual_seconds if cost is None else cost.seconds(at.planned)


def _next_batch(report: LaneReport, cost: BatchCost | None) -> float:
    """The expected seconds of the next batch, after the running one if there is one; 0.0 if no records are left for
    it.
    """
    records = _waiting(report)
    if not records:
        return 0.0
    return report.load.usual_seconds if cost is None else cost.seconds(min(records, report.load.limit or records))


def _waiting(report: LaneReport) -> int:
    at, progress = report.progress.batch_progress, report.progress
    behind = sum(max(0, end - progress.positions.get(ssp, end)) for ssp, end in progress.ends.items())
    return max(0, behind - (0 if at is None else at.planned))


def _first_batch(
    lane: Lane, report: LaneReport, cost: BatchCost | None, following: Collection[Lane], shown: Experience
) -> float:
    """The seconds that the longest of the first batches of a lane's successors takes. For the number of records in a
    first batch, see :mod:`anabranch.pace.stored_sizes`. The time of the job's functions depends on the number of
    records per bucket or, if the functions process one key after another, per partition.
    """
    known = shown.known(lane, report)
    if cost is None or not known or not following:
        functions = functions_part(report)
        return report.load.usual_seconds * (1 - functions + functions / FIRST_PART)
    longest = 0.0
    for each in following:
        share = _partitions(each) / _partitions(lane)
        buckets = share * (1.0 if report.load.sequential else each.factor / lane.factor)
        records = min(stored_sizes.first(known, each.factor, _partitions(each), quick=False), share * _records(report))
        longest = max(longest, cost.seconds(records / buckets))
    return longest


def _records(report: LaneReport) -> float:
    """How many records a lane and its successors still have to read; infinite if none are known."""
    return report.progress.lag or math.inf


def _partitions(lane: Lane) -> int:
    return max(1, len({ssp.whole for ssp in lane.ssps}))


@dataclass
class MeasuredChange:
    """A change whose pause is being measured.

    Attributes:
        foretold: the predicted pause, in seconds.
        at: when the change was accepted, in seconds since 1970.
        state_bytes: the largest size of a closing lane's state, in bytes.
        spent: the longest time, in seconds, for which a closing lane had written nothing when the change was accepted,
            although there were records to read. It is part of the pause if the running batch is broken off.
    """

    foretold: float
    closing: frozenset[str]
    at: float
    kind: Kind = Kind.SAME
    stateful: bool = False
    state_bytes: int = 0
    replay_seconds: float = 0.0
    spent: float = 0.0
    _last: dict[str, float] = field(default_factory=dict)
    _first: dict[str, float] = field(default_factory=dict)
    _behind: set[str] = field(default_factory=set)

    def hear(self, lanes: Iterable[Lane], reports: Mapping[str, LaneReport]) -> None:
        """Process the latest reports of closing lanes and their successors."""
        for lane in lanes:
            report = reports.get(lane.id)
            if report is None:
                continue
            if lane.id in self.closing and report.progress.last_output:
                self._last[lane.id] = report.progress.last_output
            elif not self.closing.isdisjoint(lane.predecessors):
                if report.progress.first_output:
                    self._first[lane.id] = report.progress.first_output
                held, ends = report.progress.positions, report.progress.ends
                self._behind.discard(lane.id)
                if any(held.get(ssp, 0) < end for ssp, end in ends.items()):
                    self._behind.add(lane.id)

    def measured(self, lanes: Iterable[Lane], since: float, whole: float = math.inf) -> tuple[float, str] | None:
        """The longest pause of any lane, in seconds, and the new lane that ended it. 0.0 and "" if no pause was seen;
        None if this isn't known yet.

        Args:
            since: the seconds for which all lanes have been running.
            whole: the seconds since the change was accepted.
        """
        followers = [lane for lane in lanes if not self.closing.isdisjoint(lane.predecessors)]
        silent = {lane.id for lane in followers} - self._first.keys()
        if silent and (since < _PATIENCE or silent & self._behind):
            return None
        pauses = [
            (self._first[lane.id] - max(map(self._began, lane.predecessors)), lane.id)
            for lane in followers
            if lane.id in self._first
        ]
        longest = whole + self.spent + _IN_STEP
        return max((each for each in pauses if 0.0 < each[0] <= longest), default=(0.0, ""))

    def _began(self, before: str) -> float:
        last = self._last.get(before, self.at)
        return last if last >= self.at - self.spent - _IN_STEP else self.at
