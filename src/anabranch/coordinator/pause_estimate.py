"""How long the output of lanes stands still while others take over from them: foretold by what they have shown so far,
and measured afterwards."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from anabranch.drain_progress import functions_part
from anabranch.model.lane import Lane
from anabranch.pace.breaking_off import is_worth_it
from anabranch.pace.speeds import FIRST_PART
from anabranch.protocol.lane_report import LaneReport

__all__ = ["Experience", "MeasuredChange", "expected"]

_STATELESS, _STATEFUL = 0.4, 0.8
"""Seconds from the end of a lane to the first batch of the next one, where no change has shown them yet."""
_HANDOVER = 0.2
"""Seconds from the last rows of a lane to when the next one could begin: the batch is committed, the lane tells that it
has ended, and is heard. Where the next one was begun ahead, that is most of it."""
_BROKEN_OFF = 0.5
"""Seconds to break a batch off, with its transactions."""
_SHORT, _LONG = 1.0, 10.0
"""Seconds. A batch that takes less is never broken off; where batches take less than the latter, how far one is says
nothing of how far the present one will be when the change comes."""
_MEAN_LOSS = 1 / 8
"""The part of a batch that a change costs which comes at any moment of it: if less than half of it is done, that part
is lost, which is a quarter of the batch on average; else nothing is."""
_STATE_SPEED = 100e6
"""Bytes of state a second that are copied and opened, where no change has shown it yet."""
_CONTAINER = 15.0
"""Seconds until a container is there, where no change has shown it yet."""
_IN_STEP = 1.0
"""So many seconds may clocks differ."""
_PATIENCE = 60.0
"""Seconds after a change for which the first output of all lanes is waited for."""
_NEW = 0.5
"""How much the newest of several counts in what is learned of them."""


@dataclass(frozen=True)
class Experience:
    """What the changes of a job have shown so far. ``state_speed``: bytes a second that are copied and opened.
    ``container``: seconds from a change until a container that it needs is started and there."""

    state_speed: float = _STATE_SPEED
    container: float = _CONTAINER

    def started(self, seconds: float) -> Experience:
        """With another container that was started for a change."""
        return replace(self, container=self.container * (1 - _NEW) + seconds * _NEW)

    def after(self, foretold: float, measured: float, state_bytes: int) -> Experience:
        """Learn from another change: whatever its pause exceeds the prediction without state by is attributed to
        state.
        """
        if state_bytes < _STATE_SPEED / 10:
            return self
        others = foretold - state_bytes / self.state_speed
        seen = state_bytes / max(0.1, measured - others)
        return replace(self, state_speed=self.state_speed ** (1 - _NEW) * seen**_NEW)


def expected(
    closing: Iterable[Lane], reports: Mapping[str, LaneReport], shown: Experience | None = None, starting: float = 0.0
) -> float:
    """Seconds between the last rows of lanes that are closed and the first of those that follow them; 0.0 if none is.

    The first batch of the next lane takes about as long as one of the former lane. Only where functions of the job take
    the time, it is smaller: see :mod:`anabranch.pace.speeds`.

    Args:
        shown: by former changes.
        starting: the seconds until a container is there for all that follow.
    """
    shown = shown or Experience()
    return max((max(starting, _pause(lane, reports.get(lane.id), shown)) for lane in closing), default=0.0)


def _pause(lane: Lane, report: LaneReport | None, shown: Experience) -> float:
    between = _STATEFUL if lane.stateful else _STATELESS
    if report is None:
        return between
    handover = max(_HANDOVER, 1.5 * (report.changeover or between))
    return _lost(report) + _first_batch(report) + handover + report.state_bytes / shown.state_speed


def _lost(report: LaneReport) -> float:
    """Seconds of the present batch that bring no output, as it is broken off; 0.0 if it is awaited."""
    at = report.batch_progress
    if at is None or report.repeats:
        return 0.0
    whole = report.usual_seconds if at.left is None else at.seconds + at.left
    if whole < _SHORT or at.seconds > whole:
        return 0.0
    if whole < _LONG:
        return whole * _MEAN_LOSS + _BROKEN_OFF / 2
    return at.seconds + _BROKEN_OFF if at.left is not None and is_worth_it(at.left, at.seconds) else 0.0


def _first_batch(report: LaneReport) -> float:
    """Seconds of the first batch of a lane that follows."""
    functions = functions_part(report)
    return report.usual_seconds * (1 - functions + functions / FIRST_PART)


@dataclass
class MeasuredChange:
    """A change whose pause is being measured. ``foretold``: in seconds; ``closing``: the lanes that it closes;
    ``at``: when it was accepted, in seconds since 1970; ``state_bytes``: of the largest lane among them."""

    foretold: float
    closing: frozenset[str]
    at: float
    state_bytes: int = 0
    _last: dict[str, float] = field(default_factory=dict)
    _first: dict[str, float] = field(default_factory=dict)

    def hear(self, lanes: Iterable[Lane], reports: Mapping[str, LaneReport]) -> None:
        """What lanes say now, whether they close or follow."""
        for lane in lanes:
            report = reports.get(lane.id)
            if report is None:
                continue
            if lane.id in self.closing and report.last_output:
                self._last[lane.id] = report.last_output
            elif report.first_output and not self.closing.isdisjoint(lane.predecessors):
                self._first[lane.id] = report.first_output

    def measured(self, lanes: Iterable[Lane], since: float, whole: float = math.inf) -> float | None:
        """The longest pause of all, in seconds; None: it isn't known yet.

        Those that have had nothing to read for a minute don't count, nor those of lanes whose machines' clocks are so
        far apart, or were set meanwhile, that the pause would be longer than the change; 0.0: no lane had one.

        Args:
            since: the seconds since all lanes run.
            whole: the seconds since the change was accepted.
        """
        followers = [lane for lane in lanes if not self.closing.isdisjoint(lane.predecessors)]
        if since < _PATIENCE and any(lane.id not in self._first for lane in followers):
            return None
        pauses = [
            self._first[lane.id] - max(self._last.get(before, self.at) for before in lane.predecessors)
            for lane in followers
            if lane.id in self._first
        ]
        return max((pause for pause in pauses if 0.0 < pause <= whole + _IN_STEP), default=0.0)
