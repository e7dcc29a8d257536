"""What is known of a running job, in parts: plain records, and what only they decide."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from anabranch.config import AssignmentSettings, AutoscaleSettings
from anabranch.coordinator import autosizing
from anabranch.coordinator.autosizing import Findings
from anabranch.coordinator.pause_estimate import Experience, MeasuredChange
from anabranch.coordinator.standby_plan import StandbyOrders
from anabranch.coordinator.store import ContainerRecord
from anabranch.event_time import durations
from anabranch.model.lane import Lane, LaneState
from anabranch.planning import assignment_settings
from anabranch.protocol.container import Registration, WantedLane
from anabranch.protocol.drain import DrainProgress
from anabranch.protocol.lane_report import LaneReport
from anabranch.protocol.standby import StandbyOrder, StandbyReport
from anabranch.protocol.status import LaunchStatus

__all__ = [
    "AutoscaleState",
    "DeploymentTerms",
    "Inputs",
    "Offer",
    "Process",
    "Progress",
    "RunSettings",
    "Seats",
    "Standbys",
]


@dataclass
class Process:
    """A process that holds a seat.

    Attributes:
        offered: lanes that it was told to run and hasn't given back.
        heard: the number of its last heartbeat.
        doomed: the store may know already that it has lost its seat.
        copies: the standbys that it keeps.
    """

    record: ContainerRecord
    lease_ends: float
    offered: set[str] = field(default_factory=set)
    heard: int = -1
    doomed: bool = False
    copies: tuple[StandbyReport, ...] = ()


@dataclass(frozen=True)
class Offer:
    """What the process in a seat is to run. ``revision`` changes with it."""

    revision: int
    wanted: tuple[WantedLane, ...] = ()
    coming: tuple[Lane, ...] = ()
    copies: tuple[StandbyOrder, ...] = ()
    done: bool = False
    at_once: bool = False

    @property
    def lanes(self) -> set[str]:
        return {one.lane.id for one in self.wanted}

    def is_news(self, before: Offer) -> bool:
        """Whether a process that was told ``before`` must hear of this one."""
        if self.done is not before.done or len(self.wanted) != len(before.wanted):
            return True
        if self.at_once is not before.at_once or self.copies != before.copies:
            return True
        if [(lane.id, lane.epoch) for lane in self.coming] != [(lane.id, lane.epoch) for lane in before.coming]:
            return True
        return any(
            (one.upstream_ended, one.closing, one.now, one.draining)
            != (former.upstream_ended, former.closing, former.now, former.draining)
            or _without_reports(one.lane) != _without_reports(former.lane)
            for one, former in zip(self.wanted, before.wanted, strict=True)
        )


def _without_reports(lane: Lane) -> Lane:
    """A lane without what only its container tells."""
    return msgspec.structs.replace(lane, state=LaneState.PLANNED, ran=False, begun=False)


@dataclass(frozen=True)
class RunSettings:
    """What the coordinator goes by of a job's settings.

    Attributes:
        given: all of them, as they are stored, for those who build systems with them.
        runs_in_real_time: whether a task slot is needed for each task.
        expansion_check: how often its inputs are looked at, in seconds.
        warm_containers: how many more processes the launcher lets stand by.
        autoscale: how the coordinator scales it; None: it doesn't.
        threads: on how many buckets of a partition functions work at once.
    """

    given: Mapping[str, Any]
    runs_in_real_time: bool
    expansion_check: float
    warm_containers: int
    assignment: AssignmentSettings
    autoscale: AutoscaleSettings | None
    threads: int

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> RunSettings:
        job: Mapping[str, Any] = given.get("job", {})
        return cls(
            given=given,
            runs_in_real_time=job.get("trigger") == "real-time",
            expansion_check=durations.parse(job.get("expansion_check", "60 seconds")) / 1000,
            warm_containers=job.get("warm_containers", 0),
            assignment=assignment_settings.settings_of(given),
            autoscale=autosizing.limits_of(given),
            threads=autosizing.threads_of(given),
        )


@dataclass(frozen=True)
class DeploymentTerms:
    """What a deployment was started with.

    Attributes:
        until_caught_up: it ends by itself, once it has read what there is.
        promises: what each output promises, by operator.
    """

    settings: RunSettings
    until_caught_up: bool = False
    promises: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Seats:
    """The processes that hold seats, those that want one, and what each seat is offered.

    Attributes:
        expels: a process that is silent for too long loses its seat, and its lanes are fenced before others get them.
        processes: those that hold seats, by container id.
        asked: when processes that stand by asked for a seat last, by their executions.
        resting: what these said when they asked.
        offers: what is wanted in each seat, as it was found last.
        revision: the last one of any offer.
        begun: when the job was started, or its launcher began anew, by this coordinator's clock.
        sure_from: before that, not all that live have been heard.
        launching: how the coordinator's own launcher fares; None: others start containers.
    """

    expels: bool = False
    processes: dict[str, Process] = field(default_factory=dict)
    asked: dict[str, float] = field(default_factory=dict)
    resting: dict[str, Registration] = field(default_factory=dict)
    offers: dict[str, Offer] = field(default_factory=dict)
    revision: int = 0
    begun: float = 0.0
    sure_from: float = 0.0
    launching: LaunchStatus | None = None

    def of(self, seat: str) -> Process | None:
        """The process that holds a seat."""
        return next((process for process in self.processes.values() if process.record.seat == seat), None)

    @property
    def taken(self) -> set[str]:
        return {process.record.seat for process in self.processes.values()}

    def leave(self, process: Process) -> None:
        """A process has given its seat back."""
        del self.processes[process.record.id]

    def stand_by(self, registration: Registration, now: float) -> None:
        """A process has asked for a seat, and there is none."""
        self.asked[registration.execution] = now
        self.resting[registration.execution] = registration

    def standing_by(self, since: float) -> frozenset[str]:
        """The executions of those that have no seat, and asked for one ``since`` then; the others are forgotten."""
        self.asked = {execution: at for execution, at in self.asked.items() if at >= since}
        self.resting = {execution: its for execution, its in self.resting.items() if execution in self.asked}
        return frozenset(self.asked)


@dataclass
class Standbys:
    """``wanted``: what processes should do with standbys, as it was found last. ``patient``: whether lanes that are to
    end wait until those that follow have some."""

    wanted: StandbyOrders = field(default_factory=dict)
    patient: bool = False


@dataclass
class AutoscaleState:
    """What the autosizer remembers of a job.

    Attributes:
        looked_at: when it looked last.
        findings: what that came to so far.
        advised: the generation in which it said what would help.
        refused: the generation that can't have the factor that it should.
        scalable: whether the job can have other factors than 1, by deployment and generation: of the last one that was
            asked for.
    """

    looked_at: float = 0.0
    findings: Findings = field(default_factory=Findings)
    advised: int = 0
    refused: int = 0
    scalable: Mapping[tuple[int, int], bool] = field(default_factory=dict)


@dataclass
class Progress:
    """How far a job is with a change, a stop or a drain.

    Attributes:
        changed_at: when its state was stored last, in seconds since 1970: to be shown, as that clock may be set.
        unchanged_since: when that was, by this coordinator's clock.
        changing_since: when its change began, by this coordinator's clock.
        rescale_seconds: how long the last change took; None: there was none.
        pause: the change whose pause is being measured.
        shown: what changes have shown so far.
        hasty: the change that is under way doesn't wait for batches that write at least once.
        at_once: when it is stopped, it needn't come to batch boundaries.
        drain: the one that was asked for.
        drains_since: when that was, by this coordinator's clock; None: another coordinator knows.
        drains_for: the seconds that it was expected to take.
    """

    changed_at: float = 0.0
    unchanged_since: float = 0.0
    changing_since: float = 0.0
    rescale_seconds: float | None = None
    pause: MeasuredChange | None = None
    shown: Experience = field(default_factory=Experience)
    hasty: bool = False
    at_once: bool = False
    drain: DrainProgress | None = None
    drains_since: float | None = None
    drains_for: float = 0.0

    def has_changed(self, at: float, now: float) -> None:
        """The job's state has: ``at`` in seconds since 1970, ``now`` by this coordinator's clock."""
        self.changed_at, self.unchanged_since = at, now

    def watch(
        self, foretold: float, closing: Iterable[Lane], reports: Mapping[str, LaneReport], accepted_at: float
    ) -> None:
        """Measure the pause of a change that was accepted then, in seconds since 1970."""
        names = frozenset(lane.id for lane in closing)
        most = max((reports[name].state_bytes for name in names if name in reports), default=0)
        self.pause = MeasuredChange(foretold, names, accepted_at, most)

    def finished(self, now: float) -> float:
        """All lanes of the generation run; gives how long that took, in seconds."""
        self.rescale_seconds = now - self.changing_since
        return self.rescale_seconds


@dataclass
class Inputs:
    """What was seen of a job's inputs.

    Attributes:
        look_from: when they are to be looked at again.
        counts: their partitions as they were seen last.
        replicas: the racks of their partitions as they were seen last.
        warning: why the job isn't adapted to them.
    """

    look_from: float = 0.0
    counts: Mapping[str, int] = field(default_factory=dict)
    replicas: Mapping[str, Mapping[int, Sequence[str | None]]] = field(default_factory=dict)
    warning: str = ""
