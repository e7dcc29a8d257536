"""Measures how long a change pauses output."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from anabranch.coordinator.jobs.batch_loss import BatchLoss
from anabranch.coordinator.jobs.change_kind import Kind
from anabranch.model.lane import Lane
from anabranch.protocol.lane_report import LaneReport

__all__ = ["MeasuredChange", "MeasuredPause"]

_IN_STEP = 1.0
"""The clocks of machines are assumed to differ by at most this many seconds."""
_PATIENCE = 60.0
"""How many seconds to wait for the first output of all new lanes, once all lanes are running."""


class MeasuredPause(NamedTuple):
    """How long a change has paused the output of a lane."""

    seconds: float
    """The length of the pause; 0.0 if no pause was seen."""
    lane: str
    """The new lane that ended the pause; empty if no pause was seen."""
    lost: float
    """The seconds of the pause that are due to a batch that was broken off."""


@dataclass
class MeasuredChange:
    """A change whose pause is being measured.

    Attributes:
        foretold: the predicted pause, in seconds.
        closing: the ids of the closing lanes.
        at: when the change was accepted, in seconds since 1970.
        stateful: whether any closing lane keeps state.
        state_bytes: the largest size of a closing lane's state, in bytes.
        replay_seconds: the longest time, in seconds, that a closing lane estimates for replaying changes to its state.
        spent: the longest time, in seconds, for which a closing lane had written nothing when the change was accepted,
            although there were records to read. This time is part of the pause if the running batch is broken off.
        lost: the seconds of ``foretold`` that are lost because a batch is broken off.
        losses: the expected loss from each closing lane's batch, by lane id.
    """

    foretold: float
    closing: frozenset[str]
    at: float
    kind: Kind = Kind.SAME
    stateful: bool = False
    state_bytes: int = 0
    replay_seconds: float = 0.0
    spent: float = 0.0
    lost: float = 0.0
    losses: Mapping[str, BatchLoss] = field(default_factory=dict)
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

    def measured(self, lanes: Iterable[Lane], since: float, whole: float = math.inf) -> MeasuredPause | None:
        """The longest pause of any lane; None if the longest pause isn't known yet.

        Args:
            since: the seconds for which all lanes have been running.
            whole: the seconds since the change was accepted.
        """
        followers = [lane for lane in lanes if not self.closing.isdisjoint(lane.predecessors)]
        silent = {lane.id for lane in followers} - self._first.keys()
        if silent and (since < _PATIENCE or silent & self._behind):
            return None
        pauses = [self._pause(lane) for lane in followers if lane.id in self._first]
        longest = whole + self.spent + _IN_STEP
        return max((each for each in pauses if 0.0 < each.seconds <= longest), default=MeasuredPause(0.0, "", 0.0))

    def _pause(self, follower: Lane) -> MeasuredPause:
        before = max(follower.predecessors, key=self._began)
        return MeasuredPause(self._first[follower.id] - self._began(before), follower.id, self._lost(before))

    def _lost(self, before: str) -> float:
        """The seconds of a lane's pause that are due to a batch that was broken off. The batch counts as broken off
        if the lane wrote nothing after the change was accepted."""
        loss, began = self.losses.get(before), self._began(before)
        if loss is None or loss.decision is None or began >= self.at:
            return 0.0
        return self.at - began + loss.delay

    def _began(self, before: str) -> float:
        last = self._last.get(before, self.at)
        return last if last >= self.at - self.spent - _IN_STEP else self.at
