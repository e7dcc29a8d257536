"""The parts of a running job: plain data, and decisions that depend on one part only."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from anabranch.config import AssignmentSettings, AutoscaleSettings
from anabranch.coordinator.jobs import batch_loss
from anabranch.coordinator.jobs.measured_change import MeasuredChange
from anabranch.coordinator.jobs.pause_estimate import Prediction
from anabranch.coordinator.jobs.pause_experience import Experience
from anabranch.coordinator.jobs.standby_plan import StandbyOrders
from anabranch.coordinator.sizing import autosizing
from anabranch.coordinator.sizing.findings import Findings
from anabranch.coordinator.store import ContainerRecord
from anabranch.event_time import durations
from anabranch.model.lane import Lane, LaneState
from anabranch.planning.assignment import assignment_settings
from anabranch.protocol.container import BatchDecision, Registration, WantedLane
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
        lease_ends: when the process's lease ends, on this coordinator's clock.
        offered: the ids of the lanes that the process might be running, or might have been told to run.
        heard: the number of the last heartbeat that this coordinator has processed; -1 for none.
        doomed: whether the process is being expelled, so that heartbeats no longer renew its lease. The store may
            already have recorded the loss of the seat.
        copies: the latest reports about the standbys that the process has.
        prepared: the ids of the lanes that the process will run later and has finished preparing, successfully or not.
    """

    record: ContainerRecord
    lease_ends: float
    offered: set[str] = field(default_factory=set)
    heard: int = -1
    doomed: bool = False
    copies: tuple[StandbyReport, ...] = ()
    prepared: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Offer:
    """What the process in a seat should run. If a new offer must be sent to the process (see :meth:`is_news`), the new
    offer has a higher ``revision`` than the previous offer.
    """

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
        """Whether this offer must be sent to a process that received ``before``."""
        if self.done is not before.done or len(self.wanted) != len(before.wanted):
            return True
        if self.at_once is not before.at_once or self.copies != before.copies:
            return True
        if [(lane.id, lane.epoch) for lane in self.coming] != [(lane.id, lane.epoch) for lane in before.coming]:
            return True
        return any(
            (one.upstream_ended, one.closing, one.deferred, one.now, one.decision, one.draining)
            != (former.upstream_ended, former.closing, former.deferred, former.now, former.decision, former.draining)
            or _without_reports(one.lane) != _without_reports(former.lane)
            for one, former in zip(self.wanted, before.wanted, strict=True)
        )


def _without_reports(lane: Lane) -> Lane:
    """A copy of a lane in which ``state``, ``ran`` and ``begun`` are reset. The container has reported these values
    itself, or learns of them from other parts of the offer."""
    return msgspec.structs.replace(lane, state=LaneState.PLANNED, ran=False, begun=False)


@dataclass(frozen=True)
class RunSettings:
    """The settings of a job that the coordinator uses.

    Attributes:
        given: all settings, as they are stored, for code that builds systems from them.
        runs_in_real_time: whether the job runs in real time, and so needs a Spark task slot for each Spark task.
        expansion_check: the seconds after which the partitions of the job's inputs are counted again.
        warm_containers: how many additional processes the launcher keeps standing by.
        autoscale: the limits within which the coordinator scales the job; None if the job isn't scaled automatically.
        threads: how many buckets of a partition the job's functions can work on at once.
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
    """The conditions under which a deployment was started.

    Attributes:
        until_caught_up: whether the job ends on its own once it has read all records that existed at the start.
        promises: the promise of each output, by operator.
    """

    settings: RunSettings
    until_caught_up: bool = False
    promises: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Seats:
    """The processes that hold seats or stand by for a seat, and the offer for each seat. Times are on this
    coordinator's clock. An *execution* is a process's EXECUTION_ENV_CONTAINER_ID.

    Attributes:
        expels: whether a process that is silent for too long loses its seat. If so, the process's lanes are fenced
            before other processes get them.
        processes: the processes that hold seats, by container id.
        asked: the time of the last request for a seat, for each process without a seat. The keys are executions.
        resting: the last registration of each process without a seat. The keys are executions.
        returning: the times when processes returned their seats in order to replace themselves with new processes. The
            keys are executions. An entry is kept until the new process asks for a seat, or is overdue.
        offers: the current offer for each seat.
        revision: the highest revision of any offer so far.
        begun: when this coordinator began to serve the deployment, or when it last told the job's launcher to try
            again, whichever is later.
        sure_from: the time by which all live processes must have reported.
        patient: whether closing lanes still wait until other processes have prepared the lanes' successors.
        watched_until: the time until which processes are asked for the watermark of each SSP, because somebody is
            looking at partitions.
        has_launcher: whether this coordinator's launcher starts the job's containers.
        launching: the state that a launcher last reported for the job; None if there is no launcher, or if the launcher
            hasn't reported a state yet.
    """

    expels: bool = False
    processes: dict[str, Process] = field(default_factory=dict)
    asked: dict[str, float] = field(default_factory=dict)
    resting: dict[str, Registration] = field(default_factory=dict)
    returning: dict[str, float] = field(default_factory=dict)
    offers: dict[str, Offer] = field(default_factory=dict)
    revision: int = 0
    begun: float = 0.0
    sure_from: float = 0.0
    patient: bool = False
    watched_until: float = 0.0
    has_launcher: bool = False
    launching: LaunchStatus | None = None

    @property
    def launched(self) -> bool:
        """Whether a launcher starts the job's containers."""
        return self.has_launcher or self.launching is not None

    def of(self, seat: str) -> Process | None:
        """The process that holds a seat."""
        return next((process for process in self.processes.values() if process.record.seat == seat), None)

    @property
    def taken(self) -> set[str]:
        return {process.record.seat for process in self.processes.values()}

    def leave(self, process: Process, returns_from: float | None) -> None:
        """Record that a process has returned its seat. ``returns_from`` is the time when the process began to
        replace itself with a new process; None if no new process follows.
        """
        del self.processes[process.record.id]
        if returns_from is not None:
            self.returning[process.record.execution] = returns_from

    def stand_by(self, registration: Registration, now: float) -> None:
        """Record that a process has asked for a seat, and that no seat was free for it."""
        self.returning.pop(registration.execution, None)
        self.asked[registration.execution] = now
        self.resting[registration.execution] = registration

    @property
    def waiting(self) -> frozenset[str]:
        """The executions of the processes that have no seat and wait for task slots of a Spark cluster."""
        return frozenset(execution for execution in self.asked if self.resting[execution].waits_for_slots)

    def returning_since(self, since: float) -> dict[str, float]:
        """The entries of ``returning`` with a time after ``since``. Other entries are forgotten."""
        self.returning = {execution: at for execution, at in self.returning.items() if at > since}
        return dict(self.returning)

    def standing_by(self, since: float) -> frozenset[str]:
        """The executions of the processes that have no seat, and last asked for one at ``since`` or later. Processes
        that last asked before ``since`` are forgotten.
        """
        self.asked = {execution: at for execution, at in self.asked.items() if at >= since}
        self.resting = {execution: its for execution, its in self.resting.items() if execution in self.asked}
        return frozenset(self.asked)


@dataclass
class Standbys:
    """The standbys of a job's lanes.

    Attributes:
        wanted: what processes should do with standbys.
        patient: whether lanes that are about to close wait until there are standbys where their successors will run.
    """

    wanted: StandbyOrders = field(default_factory=dict)
    patient: bool = False


@dataclass
class AutoscaleState:
    """What the autosizer remembers about a job.

    Attributes:
        looked_at: when the autosizer last looked at the job, on this coordinator's clock.
        findings: the results of all looks so far.
        advised: the last generation in which the autosizer gave advice; 0 for none.
        refused: the last generation in which the autosizer's factor was refused; 0 for none.
        undone_at: when a change was last undone, on this coordinator's clock; minus infinity if none was.
        locate_from: the earliest time, on this coordinator's clock, at which the autosizer may ask for a check of the
            inputs. The check looks up the racks of the inputs' replicas.
        scalable: whether the job can have a factor above 1, by deployment and generation. Only the last examined
            generation has an entry.
    """

    looked_at: float = 0.0
    findings: Findings = field(default_factory=Findings)
    advised: int = 0
    refused: int = 0
    undone_at: float = -math.inf
    locate_from: float = 0.0
    scalable: Mapping[tuple[int, int], bool] = field(default_factory=dict)


@dataclass
class Progress:
    """The progress of a job's change, stop or drain, and what keeps the coordinator from advancing the job.

    Attributes:
        changed_at: when the job's state was last stored, in seconds since 1970. Use this time only for display, because
            the clock can be set to another time.
        unchanged_since: the same moment on this coordinator's clock.
        changing_since: when the job last entered the state CHANGING, on this coordinator's clock.
        rescale_seconds: how many seconds the last change took; None if this coordinator hasn't seen a change end.
        pause: the change whose pause is being measured; None if there is none.
        shown: what was measured during the job's changes so far.
        hasty: whether the change that is under way breaks off the running batches of closing lanes, even if part of
            their output is then written twice.
        stays: the deployment and the generation of the last change for which an event has recorded that it can't be
            undone.
        at_once: whether the job is stopped without waiting for batch boundaries.
        drain: the progress of the drain, as stored; None if there is no drain.
        drains_since: when the drain was requested, on this coordinator's clock; None if this coordinator didn't receive
            the request.
        drains_for: how many seconds the drain was expected to take.
        troubles: for each thing that is due for the job but can't be done, the reason why it can't be done. The mapping
            is replaced, never changed in place.
        unfenced: why lanes couldn't be fenced, by lane and epoch. The mapping may still contain lanes that have been
            fenced since. It is replaced, never changed in place.
    """

    changed_at: float = 0.0
    unchanged_since: float = 0.0
    changing_since: float = 0.0
    rescale_seconds: float | None = None
    pause: MeasuredChange | None = None
    shown: Experience = field(default_factory=lambda: Experience(cold=True))
    hasty: bool = False
    stays: tuple[int, int] = (0, 0)
    at_once: bool = False
    drain: DrainProgress | None = None
    drains_since: float | None = None
    drains_for: float = 0.0
    troubles: Mapping[str, str] = field(default_factory=dict)
    unfenced: Mapping[tuple[str, int], str] = field(default_factory=dict)

    def has_changed(self, at: float, now: float) -> None:
        """Record that the job's state has changed. ``at`` is the time when the change was stored, in seconds since
        1970. ``now`` is the same moment on this coordinator's clock.
        """
        self.changed_at, self.unchanged_since = at, now

    def watch(
        self,
        foretold: Prediction,
        closing: Collection[Lane],
        reports: Mapping[str, LaneReport],
        accepted_at: float,
    ) -> None:
        """Begin to measure the pause of a change that was accepted at ``accepted_at``, in seconds since 1970."""
        self.shown = self.shown.closed(closing, reports)
        names = frozenset(lane.id for lane in closing)
        its = [reports[name] for name in names if name in reports]
        self.pause = MeasuredChange(
            foretold.seconds,
            names,
            accepted_at,
            foretold.kind,
            stateful=any(lane.stateful for lane in closing),
            state_bytes=max((report.progress.state_bytes for report in its), default=0),
            replay_seconds=max((report.progress.replay_seconds for report in its), default=0.0),
            spent=max((batch_loss.without_output(report, accepted_at) for report in its), default=0.0),
            lost=foretold.lost,
            losses=foretold.losses,
        )

    def decision(self, lane: str) -> BatchDecision | None:
        """The batch that a closing lane was running, and whether the batch was expected to be broken off; None if
        nothing was predicted for the lane."""
        loss = None if self.pause is None else self.pause.losses.get(lane)
        return None if loss is None else loss.decision

    def finished(self, now: float) -> float:
        """Record that the change is done. Returns how many seconds it took."""
        self.rescale_seconds = now - self.changing_since
        return self.rescale_seconds


@dataclass
class Inputs:
    """The inputs of a job, as they were when they were last checked.

    Attributes:
        look_from: when the inputs should be checked again, on this coordinator's clock.
        counts: the inputs' partition counts, by ``system/stream``.
        replicas: the racks of each partition's replicas, the leader's first, by ``system/stream`` and partition. None
            stands for a replica without a rack. Streams without known racks are left out.
        located_at: when the lookup of ``replicas`` last ended without an error, on this coordinator's clock; minus
            infinity if it never has.
        warning: why the job can't be adapted to its inputs, or why their partition counts or racks aren't known;
            otherwise empty.
    """

    look_from: float = 0.0
    counts: Mapping[str, int] = field(default_factory=dict)
    replicas: Mapping[str, Mapping[int, Sequence[str | None]]] = field(default_factory=dict)
    located_at: float = -math.inf
    warning: str = ""
