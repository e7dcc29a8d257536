"""Remembers what was measured during a job's changes, to predict the pauses of later changes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from anabranch.coordinator.jobs.change_kind import Kind
from anabranch.coordinator.jobs.measured_change import MeasuredChange
from anabranch.model.lane import Lane
from anabranch.pace.stored_sizes import StoredSize
from anabranch.protocol.lane_report import LaneReport

__all__ = ["Experience", "partitions", "usual_overhead"]

_STATE_SPEED = 200e6
"""The assumed speed, in bytes per second, at which state is copied and opened. Used until this speed has been
measured."""
_LITTLE = 0.1
"""The smallest number of seconds that replaying or copying is assumed to take."""
_CONTAINER = 15.0
"""The assumed seconds until a container is ready. Used until this time has been measured."""
_NEW = 0.5
"""The weight of the newest measurement, from 0 to 1. All earlier measurements together have the rest of the weight."""
_AT_MOST = 2.0
"""The largest factor by which a single change can raise or lower the overhead that is expected of later
changes."""
_COLD = 1.4
"""The assumed overhead of the first change within containers, as a multiple of the usual overhead. During this change,
Java and Python must also load and compile the code for changes.
"""
_STATELESS = {
    Kind.SAME: 0.6,
    Kind.FACTOR: 0.6,
    Kind.EXPANDED: 0.7,
    Kind.REWOUND: 0.7,
    Kind.MOVED: 0.6,
    Kind.VERSION: 2.5,
    Kind.NEW: 1.9,
}
_STATEFUL = {
    Kind.SAME: 1.2,
    Kind.FACTOR: 1.1,
    Kind.EXPANDED: 4.6,
    Kind.REWOUND: 3.2,
    Kind.MOVED: 2.5,
    Kind.VERSION: 9.0,
    Kind.NEW: 8.0,
}
"""The assumed overhead of a change in seconds, by kind. A measured overhead is stored as a multiple of the assumed
overhead. The overhead is the part of a pause that isn't spent on a usual batch or on copying state. There is an
overhead because lanes must report their end, successors must start, and the successors' first batches take longer than
later batches.
"""
_WITHIN = frozenset({Kind.SAME, Kind.FACTOR, Kind.EXPANDED, Kind.REWOUND})
"""The kinds of changes that happen within containers."""


@dataclass(frozen=True)
class Experience:
    """What was measured during the job's changes so far.

    Attributes:
        state_speed: the bytes of state per second that are copied and opened.
        replaying: how long it takes to replay changes to the state, as a multiple of what lanes estimate.
        container: the seconds from a change until a container that the change needs is ready.
        overhead: the measured overhead of changes, by kind, as a multiple of the assumed overhead.
        cold: whether, as far as is known, no change has happened within the lanes' containers yet.
        speeds: the batch sizes of lanes that have been closed, by stage and group, and then by factor. Containers store
            these sizes, too, and derive the first batch sizes of later lanes from them.
    """

    state_speed: float = _STATE_SPEED
    replaying: float = 1.0
    container: float = _CONTAINER
    overhead: Mapping[Kind, float] = field(default_factory=dict)
    cold: bool = False
    speeds: Mapping[tuple[str, str], Mapping[int, StoredSize]] = field(default_factory=dict)

    def started(self, seconds: float) -> Experience:
        """This experience, including the time that one more container took to get ready for a change."""
        return replace(self, container=self.container * (1 - _NEW) + seconds * _NEW)

    def closed(self, lanes: Iterable[Lane], reports: Mapping[str, LaneReport]) -> Experience:
        """This experience, including the batch sizes of lanes that are closed."""
        found = dict(self.speeds)
        for lane in lanes:
            if lane.id in reports and reports[lane.id].load.limit:
                found[lane.stage, lane.group] = self.known(lane, reports[lane.id])
        return replace(self, speeds=found)

    def known(self, lane: Lane, report: LaneReport) -> Mapping[int, StoredSize]:
        """The batch sizes that are known for a lane's stage and group, by factor. The lane's own batch size is
        included."""
        own = {lane.factor: StoredSize(report.load.limit, partitions(lane))} if report.load.limit else {}
        return {**self.speeds.get((lane.stage, lane.group), {}), **own}

    def loading(self, report: LaneReport) -> float:
        """The expected seconds until a successor of a lane has loaded the lane's state."""
        its = report.progress
        return its.state_bytes / self.state_speed + its.replay_seconds * self.replaying

    def slowness(self, kind: Kind) -> float:
        """The expected overhead of a change of the given kind, as a multiple of the assumed overhead. If such a change
        has been measured, the result is the measured multiple. If no change of any kind has been measured, the result
        is 1.0.

        If only other kinds have been measured, the result is derived from the geometric mean of their multiples. Two
        kinds are similar if both happen within containers (see ``_WITHIN``), or if neither does. If similar kinds have
        been measured, the mean includes only the similar kinds.

        For a kind that happens within containers, the result is the mean of similar kinds, if any have been measured.
        In all other cases, the result is the square root of the mean, because changes that involve several containers
        differ greatly from each other and from other changes.

        While the containers are cold, the result for a kind that happens within containers is larger.
        """
        return self._multiple(kind) * self._cold(kind)

    def _cold(self, kind: Kind) -> float:
        return _COLD if self.cold and kind in _WITHIN else 1.0

    def _multiple(self, kind: Kind) -> float:
        """The result of :meth:`slowness` for containers that aren't cold."""
        if kind in self.overhead or not self.overhead:
            return self.overhead.get(kind, 1.0)
        alike = [times for known, times in self.overhead.items() if (known in _WITHIN) == (kind in _WITHIN)]
        known = alike or [*self.overhead.values()]
        mean = sum(map(math.log, known)) / len(known)
        return math.exp(mean if alike and kind in _WITHIN else mean / 2)

    def after(self, change: MeasuredChange, pause: float, lost: float = 0.0) -> Experience:
        """This experience, including a change that has paused output for ``pause`` seconds. The difference from the
        predicted pause is attributed to what was expected to take the longest: replaying changes to state, copying
        state, or the overhead.

        Args:
            lost: the seconds of ``pause`` that are due to a broken-off batch. These seconds are left out, because they
                say nothing about other changes.
        """
        cold = change.kind is Kind.VERSION or (self.cold and change.kind not in _WITHIN)
        return replace(self._learned(change, pause, lost), cold=cold)

    def _learned(self, change: MeasuredChange, pause: float, lost: float) -> Experience:
        off = (pause - lost) - (change.foretold - change.lost)
        before, usual = self.slowness(change.kind), usual_overhead(change.kind, change.stateful)
        replay, copy = change.replay_seconds * self.replaying, change.state_bytes / self.state_speed
        if replay > max(copy, usual * before):
            longer = max(_LITTLE, replay + off) / change.replay_seconds
            return replace(self, replaying=self.replaying ** (1 - _NEW) * longer**_NEW)
        if copy > usual * before:
            seen = change.state_bytes / max(_LITTLE, copy + off)
            return replace(self, state_speed=self.state_speed ** (1 - _NEW) * seen**_NEW)
        now = min(max(before + _NEW * off / usual, before / _AT_MOST), before * _AT_MOST)
        return replace(self, overhead={**self.overhead, change.kind: now / self._cold(change.kind)})


def usual_overhead(kind: Kind, stateful: bool) -> float:
    """The assumed overhead of a change, in seconds."""
    return (_STATEFUL if stateful else _STATELESS)[kind]


def partitions(lane: Lane) -> int:
    """How many partitions a lane reads."""
    return max(1, len({ssp.whole for ssp in lane.ssps}))
