"""A running job, and what can be derived from it without a store, clock or lock."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Self

import msgspec

from anabranch.coordinator.jobs.long_batches import LongBatches
from anabranch.coordinator.jobs.parts import (
    AutoscaleState,
    DeploymentTerms,
    Inputs,
    Process,
    Progress,
    RunSettings,
    Seats,
    Standbys,
)
from anabranch.coordinator.jobs.reports import LAST_PHASES
from anabranch.errors import ConflictError, NotFoundError
from anabranch.model.deployment_state import DeploymentState
from anabranch.model.job_model import JobModel
from anabranch.model.lane import Lane, LaneState
from anabranch.planning.assignment import placement
from anabranch.planning.transition import follow
from anabranch.protocol.deployment import StartRequest
from anabranch.protocol.lane_report import LanePhase, LaneReport

__all__ = ["RUN_STATES", "RunningJob", "figures"]

RUN_STATES = frozenset({LaneState.PLANNED, LaneState.RUNNING, LaneState.CLOSING})
"""The states of lanes for which a container has work to do."""
_STOP_IT = "stop that container: it runs what it was not told to"


@dataclass
class RunningJob:
    """A job that is served. Lock it to change it: see :meth:`anabranch.coordinator.jobs.registry.JobRegistry.locked`.

    Attributes:
        known: the lanes of all deployments, by id.
        reports: the latest report about each lane, by lane id. If a process takes or loses the lane's seat, the report
            is normally removed, unless the lane is closed or has caught up.
    """

    job: str
    deployment: int
    model: JobModel
    state: DeploymentState
    terms: DeploymentTerms
    known: dict[str, Lane]
    error: str | None = None
    reports: dict[str, LaneReport] = field(default_factory=dict)
    long_batches: LongBatches = field(default_factory=LongBatches)
    seats: Seats = field(default_factory=Seats)
    standbys: Standbys = field(default_factory=Standbys)
    scaling: AutoscaleState = field(default_factory=AutoscaleState)
    progress: Progress = field(default_factory=Progress)
    inputs: Inputs = field(default_factory=Inputs)

    def __post_init__(self) -> None:
        self.figures = figures(self.model)

    @property
    def settings(self) -> RunSettings:
        return self.terms.settings

    @property
    def generation(self) -> int:
        return self.model.generation

    @property
    def model_seats(self) -> frozenset[str]:
        """The seats of the current generation."""
        return frozenset(container.seat for container in self.model.containers)

    @property
    def lanes(self) -> list[Lane]:
        """The lanes of the deployment, and the open lanes of former deployments."""
        present = self.deployment
        return [
            lane for lane in self.known.values() if lane.deployment == present or lane.state is not LaneState.CLOSED
        ]

    @property
    def follows(self) -> bool:
        """Whether this is the first generation of a deployment that continues from another deployment's lanes."""
        return self.model.replaces > 0 and self.generation == 1

    def deployment_of(self, seat: str) -> int:
        """The deployment for which a seat needs a process now. If there are deployments with open lanes in the seat,
        the result is the earliest of these deployments. Otherwise, the result is the current deployment.
        """
        its = (lane.deployment for lane in self.lanes if lane.seat == seat and lane.state is not LaneState.CLOSED)
        return min(its, default=self.deployment)

    @property
    def busy_seats(self) -> frozenset[str]:
        """The seats of the current generation, and the seats of lanes that aren't closed."""
        return self.model_seats | {lane.seat for lane in self.lanes if lane.state is not LaneState.CLOSED}

    @property
    def done(self) -> bool:
        return not self.state.active

    def ended(self, lane: str) -> bool:
        """Whether a lane has ended, and doesn't run again before another process takes its seat."""
        if self.known[lane].state is LaneState.CLOSED:
            return True
        if lane not in self.reports or self.reports[lane].phase != LanePhase.ENDED:
            return False
        # A lane that ended because it had caught up must still drain.
        return self.state is not DeploymentState.DRAINING or self.reports[lane].attempt.stopped

    def is_over(self, lane: str) -> bool:
        """Whether a lane has ended at a batch boundary, from which other lanes can continue."""
        return (
            lane in self.reports
            and self.reports[lane].phase == LanePhase.ENDED
            and not self.reports[lane].attempt.pending
        )

    def attempt(self, lane: str) -> int:
        """The number of the attempt that is named in the lane's latest report; 1 if there is no report."""
        return self.reports[lane].attempt.number if lane in self.reports else 1

    def caught_up(self, lane: str) -> bool:
        """Whether a lane has ended without being stopped. Such a lane is closed, or ended because it had caught up."""
        return self.ended(lane) and not (lane in self.reports and self.reports[lane].attempt.stopped)

    def followers(self) -> dict[str, list[str]]:
        """For each lane, the ids of the lanes that continue from it."""
        found: dict[str, list[str]] = {}
        for lane in self.lanes:
            for before in lane.predecessors:
                found.setdefault(before, []).append(lane.id)
        return found

    def ancestors(self, lanes: Iterable[str]) -> set[str]:
        """The ids in ``lanes``, and the ids of all lanes from which these lanes continue, directly or indirectly."""
        return _reached(lanes, {lane.id: lane.predecessors for lane in self.lanes})

    def descendants(self, lanes: Iterable[str]) -> set[str]:
        """The ids in ``lanes``, and the ids of all lanes that continue from these lanes, directly or indirectly."""
        return _reached(lanes, self.followers())

    def as_held(self, lane: Lane) -> Lane:
        """A lane with the epoch of the process that holds its seat. If no process holds the seat, the lane is returned
        unchanged.
        """
        holder = self.seats.of(lane.seat)
        return lane if holder is None else msgspec.structs.replace(lane, epoch=holder.record.epoch)

    def change(self, model: JobModel, lanes: Iterable[Lane], now: float) -> None:
        """Enter another generation, with the job model ``model``. The job's state becomes CHANGING. ``lanes`` are the
        lanes that are new or have changed.
        """
        self.known.update({lane.id: lane for lane in lanes})
        if self.state is not DeploymentState.CHANGING:
            self.progress.changing_since = now
        self.state, self.model = DeploymentState.CHANGING, model
        self.figures = figures(model)

    def replace(self, start: StartRequest, terms: DeploymentTerms, ended: Iterable[Lane], now: float) -> None:
        """Record that another deployment replaces the current one. ``ended``: the existing lanes that change."""
        self.deployment = start.model.run_id
        self.terms, self.error = terms, None
        self.scaling.refused = self.scaling.advised = 0
        self.seats.asked = {}
        self.change(start.model, [*ended, *start.lanes], now)

    def snapshot(self) -> Self:
        """A copy of the job for planning or reading without a lock. Immutable objects, such as lanes, are shared with
        the original. A few mutable objects, such as ``long_batches``, are also shared, and must not be used without the
        lock.
        """
        found = copy.copy(self)
        found.known, found.reports = dict(self.known), dict(self.reports)
        processes = {name: replace(each, offered=set(each.offered)) for name, each in self.seats.processes.items()}
        asked, resting, offers = dict(self.seats.asked), dict(self.seats.resting), dict(self.seats.offers)
        found.seats = replace(self.seats, processes=processes, asked=asked, resting=resting, offers=offers)
        found.standbys, found.scaling = replace(self.standbys), replace(self.scaling)
        found.progress, found.inputs = replace(self.progress), replace(self.inputs)
        return found

    def plans_alike(self, other: RunningJob) -> bool:
        """Whether each change would have the same result for ``other`` as for this job, apart from the predicted pause.
        ``other`` is the same job at another time.
        """
        return (
            self.model is other.model
            and (self.deployment, self.state) == (other.deployment, other.state)
            and self.terms is other.terms
            and self.inputs.replicas == other.inputs.replicas
            and self._bases() == other._bases()
        )

    def _bases(self) -> tuple[list[tuple[Lane, bool]], dict[str, str | None]]:
        """Each lane, with a flag that says whether it has ended. Also the racks of the containers, by seat."""
        lanes = [(lane, self.is_over(lane.id)) for lane in self.lanes]
        return lanes, {each.record.seat: each.record.rack for each in self.seats.processes.values()}

    def stranded(self) -> list[Lane]:
        """The closing lanes whose seats no longer exist and aren't held by any process. Lanes that must first be fenced
        are left out, and so are lanes whose start offsets aren't known.
        """
        taken = self.seats.taken | self.model_seats
        return [
            lane
            for lane in self.lanes
            if lane.state is LaneState.CLOSING and lane.seat not in taken and not lane.unfenced and lane.start_is_known
        ]

    def spoilt(self, followed: bool = False) -> list[Lane]:
        """The lanes that failed before they began: lanes of the current generation or, if ``followed`` is True, lanes
        from which other lanes continue. Lanes without predecessors count only if :attr:`follows` is true.
        """
        found = [
            lane
            for lane in self.lanes
            if lane.state is LaneState.FAILED and not lane.begun and (lane.predecessors or self.follows)
        ]
        if not found:  # a shortcut for nearly all calls, because this runs at every heartbeat with news
            return found
        heads = {lane.id for lane in follow.heads(self.lanes)}
        return [lane for lane in found if (lane.id in heads) is not followed]

    def opening(self) -> list[Lane]:
        """The lanes whose start offsets aren't known yet, but can now be determined."""
        return [
            lane
            for lane in self.lanes
            if not lane.start_is_known and all(self.known[each].state is LaneState.CLOSED for each in lane.waits_for)
        ]

    def needless(self) -> list[Lane]:
        """The closing lanes that belong to former deployments, haven't begun, and aren't offered to any process with a
        seat. A lane from which other lanes continue is included only if its start offsets are known. If they are
        unknown, only a process that runs the lane can determine them.
        """
        told = {lane for process in self.seats.processes.values() for lane in process.offered}
        followed = {name for lane in self.lanes for name in lane.predecessors}
        return [
            lane
            for lane in self.lanes
            if lane.deployment != self.deployment
            and lane.state is LaneState.CLOSING
            and lane.start_is_known
            and (lane.starting or lane.id not in followed)
            and not (lane.begun or lane.folder_epoch or lane.unfenced or lane.id in told)
        ]

    def lane_of(self, process: Process, lane: str) -> Lane:
        """A lane about which a process reports.

        Raises:
            NotFoundError: the lane doesn't exist.
            ConflictError: the lane belongs to another seat or another deployment.
        """
        if lane not in self.known:
            raise NotFoundError(f"{process.record.id} reports lane {lane[:200]!r}, which nobody knows", _STOP_IT)
        its = self.known[lane]
        if its.seat != process.record.seat or its.deployment != process.record.deployment:
            raise ConflictError(
                f"{process.record.id} reports lane {lane} of seat {its.seat}, deployment {its.deployment}",
                _STOP_IT,
            )
        return its

    def is_news(self, report: LaneReport) -> bool:
        """Whether a report must be processed. Reports after a lane's end or failure are ignored, unless the lane ended
        because it had caught up, and must still drain.
        """
        before = self.reports.get(report.lane)
        if before is None or before.phase not in LAST_PHASES:
            return True
        return before.phase == LanePhase.ENDED and not self.ended(report.lane)

    def last_batch(self, lane: str) -> int:
        """The last batch that a lane has reported as committed; -1 if there is none."""
        return self.reports[lane].progress.batch if lane in self.reports else -1


def figures(model: JobModel) -> dict[str, tuple[int, float]]:
    """For each stage, the number of tasks, and the average number of containers that read a partition."""
    found, seats = {}, model.seats_of_tasks()
    for stage in model.stages:
        ratio = placement.consumption(stage.tasks, seats[stage.stage]) if len(model.containers) > 1 else 1.0
        found[stage.stage] = (len(stage.tasks), ratio)
    return found


def _reached(names: Iterable[str], edges: Mapping[str, Iterable[str]]) -> set[str]:
    """The names in ``names``, and all names that can be reached from them along ``edges``. There is no recursion,
    because a lane's history can be long. Each name is looked at only once, because lanes that were first divided and
    then merged can be reached in many ways."""
    found: set[str] = set()
    queue = [*names]
    while queue:
        name = queue.pop()
        if name not in found:
            found.add(name)
            queue += edges.get(name, ())
    return found
