"""A supervised lane without Spark."""

from __future__ import annotations

import math
from typing import Any

from anabranch.container.error_text import Remedy
from anabranch.container.lane import events
from anabranch.container.lane.life import Life
from anabranch.container.lane.lifecycle import LifeState, Phase
from anabranch.container.lane.supervisor import LaneSupervisor
from anabranch.container.lane.surroundings_wait import Patience
from anabranch.container.retries import Retries
from anabranch.model.lane import Lane
from anabranch.protocol.container import WantedLane
from anabranch.protocol.lane_report import LanePhase, LaneReport
from tests.support.reports import lane_report
from tests.unit.coordinator.helpers import FIRST, Clock, lane


class Runner:
    """What a supervisor calls, with reports and a life by hand."""

    def __init__(self, lane: Lane, life: Life) -> None:
        self.lane = lane
        self.life = life
        self.remedy, self.stalled, self.awaits = Remedy.PROCESS, False, ""
        self.report = lane_report(lane=lane.id, phase=LanePhase.STARTING, folder_epoch=lane.folder_epoch)
        self.started = self.alive = False
        self.committed_before = -1

    def start(self) -> None:
        self.started = self.alive = True
        self.life.tell(events.AttemptStarted())

    def prepare_to_close(self) -> None:
        pass

    def join(self, timeout: float) -> bool:
        return not self.alive

    def take_folder(self, epoch: int) -> None:
        self.say(folder_epoch=epoch)
        self.life.tell(events.FolderTaken(epoch))

    def begin(self) -> None:
        """It gets as far as it may."""
        if self.life.state.phase is Phase.TAKING:
            self.take_folder(self.report.attempt.folder_epoch or 1)
        if self.life.state.phase is Phase.REPORTED and not self.life.state.waits:
            self.life.tell(events.AcknowledgementAwaited())
        if self.life.state.phase is Phase.STARTING:
            self.life.tell(events.QueryStarted())
            self.say(phase=LanePhase.RUNNING)

    def say(self, **fields: Any) -> None:
        self.report = self.report.changed(**fields)

    def fail(self, **fields: Any) -> None:
        self.say(phase=LanePhase.FAILED, error="boom", **fields)
        self.life.tell(events.AttemptFailed(RuntimeError("boom")))
        self.life.tell(events.FailureReported())
        self.alive = False

    def end(self) -> None:
        """It finishes what was begun, as it is to close."""
        self.life.tell(events.PendingFinished())
        self.say(phase=LanePhase.ENDED)
        self.life.tell(events.LaneEnded())
        self.alive = False


class Supervised:
    """A supervisor, the runners that it has made, and a clock."""

    def __init__(self, most: int = 3, replaceable: bool = False, longest: float = math.inf) -> None:
        self.runners: list[Runner] = []
        self.clock = Clock()
        self.lane = lane(FIRST)
        # Somebody sets the machine's clock back all the time.
        patience = Patience(longest, chance=lambda: 0.5, now=lambda: 2000 - self.clock())
        self.supervisor = LaneSupervisor(
            WantedLane(lane=self.lane), self._make, Retries(most), self.clock, lambda: replaceable, patience
        )

    def _make(self, lane: Lane, life: Life) -> Runner:
        self.runners.append(Runner(lane, life))
        return self.runners[-1]

    @property
    def state(self) -> LifeState:
        return self.runners[-1].life.state

    def turn(self, seconds: float = 0.0, closing: bool = False) -> LaneReport:
        self.clock.at += seconds
        self.supervisor.go_on(WantedLane(lane=self.lane, closing=closing))
        self.runners[-1].begin()
        return self.supervisor.report

    def fail(self, **fields: Any) -> LaneReport:
        self.runners[-1].fail(**fields)
        return self.supervisor.report
