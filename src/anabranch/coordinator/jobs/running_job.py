"""A job that is served: its lanes and processes, and what follows from them. No store, clock or lock."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from anabranch.assignment import placement, seating
from anabranch.assignment.seating import Placing, Where
from anabranch.config import AutoscaleSettings
from anabranch.coordinator import copying, draining, reports
from anabranch.coordinator.autosizing import Findings
from anabranch.coordinator.copying import Copies, Member
from anabranch.coordinator.launching import Demand
from anabranch.coordinator.long_batches import LongBatches
from anabranch.coordinator.pausing import Experience, Watched
from anabranch.coordinator.reports import LAST_PHASES, LIVE_PHASES
from anabranch.coordinator.states import DeploymentState, LaneView, Snapshot
from anabranch.coordinator.store import ContainerRecord
from anabranch.errors import ConflictError, NotFoundError
from anabranch.event_time import durations
from anabranch.messages import (
    Answer,
    Copy,
    CopyReport,
    CopyStatus,
    Drain,
    Heartbeat,
    JobStatus,
    LaneReport,
    LaneStatus,
    Launching,
    Registration,
    Start,
    WantedLane,
)
from anabranch.model.job_model import JobModel
from anabranch.model.lane import Lane, LaneState
from anabranch.planning import changes, placing

__all__ = ["Process", "RunningJob"]

_WANTED = frozenset({LaneState.PLANNED, LaneState.RUNNING, LaneState.CLOSING})
_COPIES_WITHIN = 300.0
"""A lane that is to end goes on for so many seconds at most, until those that follow have standbys to begin with."""
_STOP_IT = "stop that container: it runs what it was not told to"


@dataclass
class Process:
    """A process that holds a seat. ``offered``: lanes it was told to run and hasn't given back.

    ``heard``: the number of its last beat. ``doomed``: the store may know already that it has lost its seat.
    ``copies``: the standbys that it keeps.
    """

    record: ContainerRecord
    lease_ends: float
    offered: set[str] = field(default_factory=set)
    heard: int = -1
    doomed: bool = False
    copies: tuple[CopyReport, ...] = ()


@dataclass(frozen=True)
class Offer:
    """What the process in a seat is told. ``revision`` is another one whenever it changes."""

    revision: int
    wanted: tuple[WantedLane, ...] = ()
    coming: tuple[Lane, ...] = ()
    copies: tuple[Copy, ...] = ()
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
            or _told(one.lane) != _told(former.lane)
            for one, former in zip(self.wanted, before.wanted, strict=True)
        )


@dataclass
class RunningJob:
    """``known``: the lanes of all deployments. ``reports``: the last one of each lane in this run. ``model``: the
    present generation.

    ``offers``: what is wanted in each seat, as :meth:`renew` found it last; ``revision`` is the last one of any.
    ``expels``: a process that is silent for too long loses its seat, and its lanes are fenced before others get them.
    ``look_from``: when its inputs are to be looked at again; ``counts`` are their partitions as seen then, and
    ``warning`` says why it doesn't go along with them. ``replicas``: the racks of its inputs' partitions, as they were
    last seen.
    ``begun``: when it was started, here. Before ``sure_from`` not all that live have been heard. ``asked``: when
    processes that stand by, by their executions, asked for a seat last, and ``resting`` what they said.
    ``copying``: what processes should do with standbys, as :meth:`renew` found it last; ``patient``: whether lanes that
    are to end wait until those that follow have some.
    ``autoscale``: how the coordinator scales it, which looked ``sized_at`` last; None: it isn't. ``findings``: what
    that came to so far; ``advised``: the generation in which it said what would help.
    ``at_once``: when it is stopped, it needn't come to batch boundaries. ``hasty``: the change that is under way
    doesn't wait for batches that write at least once.
    ``refused``: the generation that can't have the factor that it should. ``changed_at``: when its state was stored
    last, in seconds since 1970. ``drain``: the one that is wished for.
    """

    job: str
    deployment: int
    model: JobModel
    state: DeploymentState
    until_caught_up: bool
    known: dict[str, Lane]
    expels: bool = False
    settings: dict[str, Any] = field(default_factory=dict)
    promises: dict[str, str] = field(default_factory=dict)
    error: str | None = None
    processes: dict[str, Process] = field(default_factory=dict)
    reports: dict[str, LaneReport] = field(default_factory=dict)
    long_batches: LongBatches = field(default_factory=LongBatches)
    revision: int = 0
    offers: dict[str, Offer] = field(default_factory=dict)
    begun: float = 0.0
    sure_from: float = 0.0
    asked: dict[str, float] = field(default_factory=dict)
    resting: dict[str, Registration] = field(default_factory=dict)
    copying: Copies = field(default_factory=dict)
    patient: bool = False
    launching: Launching | None = None
    autoscale: AutoscaleSettings | None = None
    sized_at: float = 0.0
    findings: Findings = field(default_factory=Findings)
    advised: int = 0
    refused: int = 0
    changed_at: float = 0.0
    changing_since: float = 0.0
    rescale_seconds: float | None = None
    drains_since: float = 0.0
    drains_for: float = 0.0
    pause: Watched | None = None
    shown: Experience = field(default_factory=Experience)
    look_from: float = 0.0
    counts: Mapping[str, int] = field(default_factory=dict)
    replicas: Mapping[str, Mapping[int, Sequence[str | None]]] = field(default_factory=dict)
    warning: str = ""
    at_once: bool = False
    hasty: bool = False
    drain: Drain | None = None

    def __post_init__(self) -> None:
        self.figures = _figures(self.model)
        self.assignment = placing.settings_of(self.settings)
        self.renew()

    @property
    def generation(self) -> int:
        return self.model.generation

    @property
    def model_seats(self) -> frozenset[str]:
        """The seats of the present generation."""
        return frozenset(container.seat for container in self.model.containers)

    @property
    def looks_every(self) -> float:
        """How often its inputs are looked at, in seconds."""
        text: str = self.settings.get("job", {}).get("expansion_check", "60 seconds")
        return durations.parse(text) / 1000

    @property
    def runs_in_real_time(self) -> bool:
        return bool(self.settings.get("job", {}).get("trigger") == "real-time")

    @property
    def lanes(self) -> list[Lane]:
        """The lanes of the deployment; and those of former ones that aren't closed yet."""
        present = self.deployment
        return [
            lane for lane in self.known.values() if lane.deployment == present or lane.state is not LaneState.CLOSED
        ]

    @property
    def follows(self) -> bool:
        """Whether the generation is the first one of a deployment that goes on from the lanes of another one."""
        return self.model.replaces > 0 and self.generation == 1

    def deployment_of(self, seat: str) -> int:
        """The deployment that a seat is for now: the first of those that have lanes there which aren't closed."""
        its = (lane.deployment for lane in self.lanes if lane.seat == seat and lane.state is not LaneState.CLOSED)
        return min(its, default=self.deployment)

    @property
    def program_due(self) -> int:
        """The deployment whose code a process should have that comes now."""
        taken = {process.record.seat for process in self.processes.values()}
        return min((self.deployment_of(seat) for seat in self.seats - taken), default=self.deployment)

    @property
    def relieved(self) -> bool:
        """Whether lanes of former deployments may end: those who go on from them are there; or somebody else starts
        containers, and does so when others have ended."""
        if self.launching is None or self.state is not DeploymentState.CHANGING:
            return True
        there = {p.record.execution for p in self.processes.values() if p.record.deployment == self.deployment}
        return len(there | self.asked.keys()) >= len(self.model_seats)

    @property
    def seats(self) -> frozenset[str]:
        """Those that there is something to do in."""
        return self.model_seats | {lane.seat for lane in self.lanes if lane.state is not LaneState.CLOSED}

    @property
    def done(self) -> bool:
        return not self.state.active

    def where(self, containers: int) -> Where:
        """The racks of so many seats: of their containers, else those that tasks were placed for, else those that
        settings name; and of partitions."""
        placed, named = {each.seat: each.rack for each in self.model.containers}, self.assignment.racks
        racks: dict[str, str | None] = {}
        for number in range(containers):
            seat, expected = str(number), named[number % len(named)] if named else None
            holder = self.process_of(seat)
            racks[seat] = placed.get(seat) or expected if holder is None else holder.record.rack
        lanes = placing.lanes_reading(changes.heads(self.lanes)) if self.replicas else {}
        return Where(seats=racks, partitions=self.replicas, lanes=lanes)

    def placing(self, containers: int) -> Placing:
        """Gives tasks the seats of so many containers."""
        where, rules = self.where(containers), placing.rules(self.assignment)
        return lambda stages, former: seating.seat(stages, former, where, rules)

    def nearest(self, free: Collection[str], rack: str | None) -> str:
        """The free seat for a process in a rack: one whose tasks were placed for it, else one for none, else any."""
        placed = {each.seat: each.rack for each in self.model.containers}
        return min(free, key=lambda seat: (placed.get(seat) != rack, placed.get(seat) is not None, seat))

    def misplaced(self) -> str:
        """Where containers aren't in the racks that their tasks were placed for; empty if they are, or needn't be."""
        if self.assignment.strategy == "none" or len(self.model.containers) == 1:
            return ""
        held = {each.record.seat: each.record.rack for each in self.processes.values()}
        other = [each for each in self.model.containers if each.seat in held and held[each.seat] != each.rack]
        if not other:
            return ""
        told = ", ".join(f"seat {each.seat} is in {_rack(held[each.seat])}, not {_rack(each.rack)}" for each in other)
        return f"tasks were placed for other racks: {told}: see anabranch plan assign {self.job}"

    def process_of(self, seat: str) -> Process | None:
        return next((process for process in self.processes.values() if process.record.seat == seat), None)

    def ended(self, lane: str) -> bool:
        """Whether a lane runs no more, until a process takes its seat."""
        if self.known[lane].state is LaneState.CLOSED:
            return True
        if lane not in self.reports or self.reports[lane].phase != "ended":
            return False
        # One that has caught up has still to drain.
        return self.state is not DeploymentState.DRAINING or self.reports[lane].stopped

    def is_over(self, lane: str) -> bool:
        """Whether a lane has ended at a batch boundary, so that others can go on from there."""
        return lane in self.reports and self.reports[lane].phase == "ended" and not self.reports[lane].pending

    def attempt(self, lane: str) -> int:
        """How often its container has begun a lane."""
        return self.reports[lane].attempt if lane in self.reports else 1

    def caught_up(self, lane: str) -> bool:
        """Whether a lane has ended by itself."""
        return self.ended(lane) and not (lane in self.reports and self.reports[lane].stopped)

    def wanted(self) -> tuple[WantedLane, ...]:
        """What should run now, in all containers."""
        if not self.state.runs:
            return ()
        drains, relieved, unready = draining.of_lane(self.drain, self.state), self.relieved, self._unready()
        followers = self._followers() if self.until_caught_up or drains else {}
        return tuple(
            WantedLane(
                lane=lane,
                upstream_ended=(
                    self._have_closed(lane.upstream, followers)
                    if drains
                    else self.until_caught_up and self._have_caught_up(lane.upstream, followers)
                ),
                closing=(
                    lane.state is LaneState.CLOSING
                    and (lane.deployment == self.deployment or relieved)
                    and lane.id not in unready
                ),
                now=self.hasty and lane.state is LaneState.CLOSING,
                draining=None if lane.state is LaneState.CLOSING else drains,
            )
            for lane in self.lanes
            if lane.state in _WANTED and lane.may_start and not lane.unfenced and not self.ended(lane.id)
        )

    @property
    def members(self) -> dict[str, Member]:
        """Its processes, by execution: those that have a seat, and those that stand by."""
        found = {
            execution: Member(rack=its.rack, copies=its.copies)
            for execution, its in self.resting.items()
            if execution in self.asked
        }
        return found | {
            each.record.execution: Member(rack=each.record.rack, container=each.record.id, copies=each.copies)
            for each in self.processes.values()
        }

    def _runners(self) -> dict[str, str]:
        """Of each stateful lane that runs in a folder, its process."""
        holders = {each.record.seat: each.record for each in self.processes.values()}
        return {
            lane.id: holders[lane.seat].execution
            for lane in self.lanes
            if lane.stateful
            and lane.folder_epoch
            and lane.state in _WANTED
            and not (lane.abandoned or lane.unfenced or self.ended(lane.id))
            and lane.seat in holders
            and holders[lane.seat].deployment == lane.deployment
        }

    def _moving(self, runners: Mapping[str, str]) -> dict[str, list[str]]:
        """Of each lane that is to end, the processes of those that go on from its state; its own for what has none."""
        found: dict[str, list[str]] = {}
        for lane in self.lanes if self.state is DeploymentState.CHANGING else ():
            clears = lane.afresh or (lane.rewind is not None and lane.rewind.clear)
            for before in lane.predecessors if lane.stateful and not lane.folder_epoch and not clears else ():
                if before in runners and self.known[before].state is LaneState.CLOSING:
                    holder = self.process_of(lane.seat)
                    its = runners[before] if holder is None else holder.record.execution
                    found.setdefault(before, []).append(its)
        return found

    def _unready(self) -> frozenset[str]:
        """The lanes that are to end, and go on until those that follow have standbys to begin with."""
        if not (self.patient and self.assignment.standbys and self.state is DeploymentState.CHANGING):
            return frozenset()
        members = self.members.values()
        return frozenset(
            lane
            for lane, followers in self._moving(self._runners()).items()
            if not copying.is_warm(self.known[lane], self._batch(lane), len(followers), members)
        )

    def prepare_copies(self, now: float, lease: float) -> None:
        """Forget who stands by no more, and let lanes that are to end wait for standbys, or do so no more."""
        self.standing_by(now - lease)
        self.patient = now < max(self.changing_since, self.begun) + _COPIES_WITHIN

    def _copies(self) -> Copies:
        """What each process should do with standbys."""
        members, count = self.members, self.assignment.standbys
        if not self.state.runs or not (count or any(member.copies for member in members.values())):
            return {}
        runners = self._runners()
        return copying.told(self.known, runners, members, count, self._moving(runners) if count else {})

    def is_news_of_copies(self, process: Process, copies: Sequence[CopyReport]) -> bool:
        """Whether anything may follow from what a process says of its standbys."""
        if self.state is DeploymentState.CHANGING:
            return process.copies != tuple(copies)
        return {*map(_shape, process.copies)} != {*map(_shape, copies)}

    def coming(self) -> tuple[Lane, ...]:
        """What will be wanted, in all containers, once others are closed."""
        return tuple(self.held(lane) for lane in self.lanes if lane.state is LaneState.PLANNED and not lane.may_start)

    def _followers(self) -> dict[str, list[str]]:
        """By lane, those that go on from it."""
        found: dict[str, list[str]] = {}
        for lane in self.lanes:
            for before in lane.predecessors:
                found.setdefault(before, []).append(lane.id)
        return found

    def _have_caught_up(self, lanes: Iterable[str], followers: Mapping[str, Sequence[str]]) -> bool:
        """Whether lanes, and all that go on from them, have ended by themselves."""
        return all(
            self._have_caught_up(followers[lane], followers) if lane in followers else self.caught_up(lane)
            for lane in lanes
        )

    def _have_closed(self, lanes: Iterable[str], followers: Mapping[str, Sequence[str]]) -> bool:
        """Whether lanes, and all that go on from them, are closed."""
        return all(
            self.known[lane].state is LaneState.CLOSED and self._have_closed(followers.get(lane, ()), followers)
            for lane in lanes
        )

    def held(self, lane: Lane) -> Lane:
        """A lane as the process has it that holds its seat; whoever takes a free one gets its lanes then."""
        holder = self.process_of(lane.seat)
        return lane if holder is None else msgspec.structs.replace(lane, epoch=holder.record.epoch)

    def change(self, model: JobModel, lanes: Iterable[Lane], now: float) -> None:
        """Go into another generation; ``lanes`` are those that are new, or have changed."""
        self.known.update({lane.id: lane for lane in lanes})
        if self.state is not DeploymentState.CHANGING:
            self.changing_since = now
        self.state, self.model = DeploymentState.CHANGING, model
        self.figures = _figures(model)

    def replace(
        self,
        start: Start,
        settings: dict[str, Any],
        autoscale: AutoscaleSettings | None,
        ended: Iterable[Lane],
        now: float,
    ) -> None:
        """Go into another deployment, as :meth:`change`. ``ended``: the lanes of the former one that have changed."""
        self.deployment = start.model.run_id
        self.settings, self.autoscale, self.promises = settings, autoscale, start.promises
        self.until_caught_up, self.refused, self.error = start.until_caught_up, 0, None
        self.advised = 0
        self.asked = {}
        self.change(start.model, [*ended, *start.lanes], now)

    def until_seated(self, free: Collection[str]) -> float:
        """Seconds until containers are there for these seats, as expected; 0.0: they stand by, or nobody of ours starts
        them."""
        if self.launching is None or len(free) <= len(self.asked):
            return 0.0
        return self.shown.container

    def watch(self, foretold: float, closing: Iterable[Lane], at: float) -> None:
        """Measure the pause of a change that was accepted then, in seconds since 1970."""
        its = [self.reports[lane.id] for lane in closing if lane.id in self.reports]
        most = max((report.state_bytes for report in its), default=0)
        self.pause = Watched(foretold, frozenset(lane.id for lane in closing), at, most)

    def changed(self, now: float) -> float:
        """All lanes of the generation run; gives how long that took, in seconds."""
        self.rescale_seconds = now - self.changing_since
        return self.rescale_seconds

    def stranded(self) -> list[Lane]:
        """The lanes that must still be closed, of seats that are no more and that nobody holds."""
        taken = {process.record.seat for process in self.processes.values()} | self.model_seats
        return [
            lane
            for lane in self.lanes
            if lane.state is LaneState.CLOSING and lane.seat not in taken and not lane.unfenced and lane.may_start
        ]

    def spoilt(self, followed: bool = False) -> list[Lane]:
        """The lanes that failed before they have ever begun: of the present generation, or those that others go on
        from."""
        found = [
            lane
            for lane in self.lanes
            if lane.state is LaneState.FAILED and not lane.begun and (lane.predecessors or self.follows)
        ]
        if not found:  # as nearly always, and this is asked at every beat that brings news
            return found
        heads = {lane.id for lane in changes.heads(self.lanes)}
        return [lane for lane in found if (lane.id in heads) is not followed]

    def opening(self) -> list[Lane]:
        """The lanes of which it isn't known yet where they begin, and now it can be."""
        return [
            lane
            for lane in self.lanes
            if not lane.may_start and all(self.known[each].state is LaneState.CLOSED for each in lane.waits_for)
        ]

    def needless(self) -> list[Lane]:
        """The lanes of former deployments that must be closed, and that no process was ever told of. Where one of the
        first lanes of a job would begin, only a process can tell."""
        told = {lane for process in self.processes.values() for lane in process.offered}
        followed = {name for lane in self.lanes for name in lane.predecessors}
        return [
            lane
            for lane in self.lanes
            if lane.deployment != self.deployment
            and lane.state is LaneState.CLOSING
            and lane.may_start
            and (lane.starting or lane.id not in followed)
            and not (lane.begun or lane.folder_epoch or lane.unfenced or lane.id in told)
        ]

    def free_seats(self, deployment: int) -> frozenset[str]:
        """The seats that nobody has, and whose lanes nobody else can write for any more: those that are for such a
        deployment now."""
        taken = {process.record.seat for process in self.processes.values()}
        taken |= {lane.seat for lane in self.lanes if lane.unfenced}
        return frozenset(seat for seat in self.seats - taken if self.deployment_of(seat) == deployment)

    def may_write(self, process: Process) -> list[Lane]:
        """The lanes of a process's seat that it may have begun and hasn't told to have ended."""
        its = [lane for lane in self.lanes if lane.seat == process.record.seat and lane.state is not LaneState.CLOSED]
        return [lane for lane in its if lane.folder_epoch and not self.ended(lane.id)]

    def stand_by(self, registration: Registration, now: float) -> None:
        """A process has asked for a seat, and there is none."""
        self.asked[registration.execution] = now
        self.resting[registration.execution] = registration

    def standing_by(self, since: float) -> frozenset[str]:
        """The executions of those that have no seat, and asked for one ``since`` then."""
        self.asked = {execution: at for execution, at in self.asked.items() if at >= since}
        self.resting = {execution: its for execution, its in self.resting.items() if execution in self.asked}
        return frozenset(self.asked)

    def demand(self, now: float, lease: float) -> Demand:
        """Whom a launcher should let run for it."""
        runs = self.state.runs
        warm: int = self.settings.get("job", {}).get("warm_containers", 0)
        former = {seat for seat in self.seats if self.deployment_of(seat) != self.deployment}
        former |= {p.record.seat for p in self.processes.values() if p.record.deployment != self.deployment}
        return Demand(
            job=self.job,
            wanted=len(self.seats) + len(former) + warm if runs else 0,
            over=self.done,
            begun=self.begun,
            sure_from=self.sure_from,
            holders=self._holders,
            standing_by=self.standing_by(now - lease),
        )

    def try_again(self, now: float) -> bool:
        """Let its launcher begin anew; gives whether it had given up on a job that should run."""
        gave_up = self.launching is not None and self.launching.gave_up and self.demand(now, 0.0).wanted > 0
        if gave_up:
            self.begun, self.launching = now, None
        return gave_up

    @property
    def _holders(self) -> frozenset[str]:
        return frozenset(process.record.execution for process in self.processes.values())

    def expel(self, process: Process, lanes: Sequence[Lane]) -> None:
        """A process has lost its seat; its lanes are as they were stored."""
        del self.processes[process.record.id]
        for lane in lanes:
            self.known[lane.id] = lane
            self.reports.pop(lane.id, None)

    def renew(self) -> bool:
        """Find out what each seat is offered now; gives whether that has changed for any."""
        holders = {process.record.seat: process.record.deployment for process in self.processes.values()}
        wanted: dict[str, list[WantedLane]] = {}
        for one in self.wanted():
            if one.lane.deployment == holders.get(one.lane.seat, one.lane.deployment):
                wanted.setdefault(one.lane.seat, []).append(one)
        coming: dict[str, list[Lane]] = {}
        for lane in self.coming() if self.state is DeploymentState.CHANGING else ():
            if lane.deployment == holders.get(lane.seat, lane.deployment):
                coming.setdefault(lane.seat, []).append(lane)
        self.copying = self._copies()
        copies = {each.record.seat: self.copying.get(each.record.execution, ()) for each in self.processes.values()}
        news, busy = False, self.seats
        for seat in busy | holders.keys():
            over = seat in holders and holders[seat] != self.deployment and self.deployment_of(seat) != holders[seat]
            done = self.done or seat not in busy or over
            before, its = self.offers.get(seat), tuple(wanted.get(seat, ()))
            then, kept = tuple(coming.get(seat, ())), copies.get(seat, ())
            hurry = self.at_once and self.state is DeploymentState.STOPPING
            same = before is not None and before.done is done and before.at_once is hurry
            same = same and before is not None and before.copies == kept and before.coming == then
            if same and before is not None and _identical(before.wanted, its):
                continue
            offer = Offer(self.revision + 1, its, then, kept, done, hurry)
            if before is None or offer.is_news(before):
                news, self.revision = True, offer.revision
            else:
                offer = dataclasses.replace(offer, revision=before.revision)
            self.offers[seat] = offer
        return news

    def offer(self, process: Process) -> Offer:
        return self.offers[process.record.seat]

    def lane_of(self, process: Process, lane: str) -> Lane:
        """A lane that a process reports.

        Raises:
            NotFoundError: nobody knows it.
            ConflictError: it is of another seat or of another deployment.
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

    def leave(self, process: Process) -> None:
        """A process has given its seat back."""
        del self.processes[process.record.id]

    def is_news(self, report: LaneReport) -> bool:
        """After the end of a lane in this run nothing is: it was overtaken on its way. But one that had caught up
        begins again to drain."""
        before = self.reports.get(report.lane)
        if before is None or before.phase not in LAST_PHASES:
            return True
        return before.phase == "ended" and not self.ended(report.lane)

    def hear_figures(self, process: Process, beat: Heartbeat) -> bool:
        """Keep the reports of a beat that brings figures only; gives whether it was one. If not, nothing was done."""
        news = []
        if self.is_news_of_copies(process, beat.copies):
            return False
        for report in beat.lanes:
            before, lane = self.reports.get(report.lane), self.known.get(report.lane)
            if before is None or lane is None or lane.seat != process.record.seat:
                return False
            if lane.deployment != process.record.deployment:
                return False
            if self.is_news(report):
                if not reports.is_routine(lane, before, report) or self.long_batches.is_due(report):
                    return False
                news.append(report)
        if self._offered(process, news, beat.seen) != process.offered:
            return False
        self.reports.update({report.lane: report for report in news})
        process.copies = beat.copies
        return True

    def hear(self, process: Process, news: Sequence[LaneReport], beat: Heartbeat) -> bool:
        """Keep the reports, and find out which lanes and standbys the process still has; gives whether that has
        changed."""
        before, process.offered = process.offered, self._offered(process, news, beat.seen)
        self.reports.update({report.lane: report for report in news})
        copies = self.is_news_of_copies(process, beat.copies)
        process.copies = beat.copies
        return process.offered != before or copies

    def _offered(self, process: Process, news: Sequence[LaneReport], seen: int) -> set[str]:
        """The lanes that a process has after its reports.

        One that has seen the present revision and doesn't report an unwanted lane never started it.
        """
        live = {report.lane for report in news if report.phase in LIVE_PHASES}
        offered = (process.offered | live) - {report.lane for report in news if report.phase in LAST_PHASES}
        offer = self.offer(process)
        return offered & (live | offer.lanes) if seen == offer.revision else offered

    def seat(self, process: Process, lanes: Sequence[Lane], now: float) -> None:
        """A process takes its seat and its lanes. Those that ended begin again, unless they had caught up."""
        former = self.process_of(process.record.seat)
        if former is not None:
            del self.processes[former.record.id]
        elif self.state is DeploymentState.CHANGING and process.record.execution not in self.asked:
            self.shown = self.shown.started(now - self.changing_since)
        self.processes[process.record.id] = process
        self.asked.pop(process.record.execution, None)
        for lane in lanes:
            self.known[lane.id] = lane
            if not (self.until_caught_up and self.caught_up(lane.id)):
                self.reports.pop(lane.id, None)

    def is_told(self, process: Process, seen: int) -> bool:
        """Whether a process that has seen a revision knows all that it should."""
        offer = self.offer(process)
        return offer.revision == seen and offer.lanes <= process.offered

    def answer(self, process: Process, seen: int) -> Answer:
        """What a process is told that has seen a revision."""
        offer = self.offer(process)
        process.offered |= offer.lanes
        if seen == offer.revision:
            return Answer(alive=True, revision=seen, same=True)
        return Answer(
            alive=True,
            revision=offer.revision,
            wanted=offer.wanted,
            coming=offer.coming,
            copies=offer.copies,
            until_caught_up=self.until_caught_up,
            at_once=offer.at_once,
            done=offer.done,
        )

    def snapshot(self, now: float, *, stop_wanted: bool = False) -> Snapshot:
        holders = [process for process in self.processes.values() if self.expels or now < process.lease_ends]
        starved = self._starved()
        held = {lane for process in holders for lane in process.offered}
        views = (
            LaneView(
                id=lane.id,
                running=lane.state is LaneState.RUNNING,
                ended=self.caught_up(lane.id),
                held=lane.id in held or lane.unfenced,
                error=f"lane {lane.id}: {lane.error}" if lane.state is LaneState.FAILED else None,
                starved=lane.id in starved,
                closing=lane.state is LaneState.CLOSING,
            )
            for lane in self.lanes
            if lane.state is not LaneState.CLOSED
        )
        return Snapshot(
            state=self.state,
            lanes=tuple(views),
            until_caught_up=self.until_caught_up,
            stop_wanted=stop_wanted,
            drains=self.drain is not None,
            error=self.error,
        )

    def _starved(self) -> set[str]:
        """The lanes that come after one that failed."""
        failed = {lane.id for lane in self.lanes if lane.state is LaneState.FAILED}
        if not failed:
            return failed
        followers = self._followers()
        fed = {name: list(its) for name, its in followers.items()}
        for lane in self.lanes:
            writers = [*lane.upstream]
            for before in writers:
                fed.setdefault(before, []).append(lane.id)
                writers += followers.get(before, ())  # which feed it now
        found: set[str] = set()
        queue = [*failed]
        while queue:
            after = set(fed.get(queue.pop(), ())) - found
            found |= after
            queue += after
        return found

    def status(self, now: float, lease: float, lost: Sequence[ContainerRecord] = ()) -> JobStatus:
        """``lost``: processes that have lost their seats."""
        containers = [one.record.status(now < one.lease_ends, one.lease_ends - now) for one in self.processes.values()]
        return JobStatus(
            job=self.job,
            deployment=self.deployment,
            generation=self.generation,
            state=self.state.value,
            lanes=tuple(
                LaneStatus(lane=lane, report=self.reports.get(lane.id))
                for lane in self.lanes
                if lane.state is not LaneState.CLOSED
            ),
            containers=(*containers, *(one.status(alive=False) for one in lost)),
            error=self.error,
            promises=self.promises,
            seats=len(self.model_seats),
            factor=self.model.factor,
            tasks={stage: tasks for stage, (tasks, _) in self.figures.items()},
            consumption={stage: ratio for stage, (_, ratio) in self.figures.items()},
            rescale_seconds=self.rescale_seconds,
            standing_by=len(self.standing_by(now - lease)),
            launching=self.launching,
            inputs=dict(self.counts),
            warnings=tuple(each for each in (self.warning, self.misplaced()) if each),
            drain=self.drain,
            copies=tuple(
                CopyStatus(
                    lane=has.lane,
                    number=has.number,
                    container=member.container,
                    rack=member.rack,
                    batch=has.batch,
                    behind=self._behind(has),
                    error=has.error,
                )
                for member in self.members.values()
                for has in member.copies
            ),
        )

    def _batch(self, lane: str) -> int:
        """The last one that a lane is known to have committed."""
        return self.reports[lane].batch if lane in self.reports else -1

    def _behind(self, has: CopyReport) -> int | None:
        return None if has.batch < 0 else max(0, self._batch(has.lane) - has.batch)


def _shape(has: CopyReport) -> tuple[str, int, int, bool, str]:
    """A report of a standby without how far it is."""
    return (has.lane, has.epoch, has.number, has.batch < 0, has.error)


def _rack(rack: str | None) -> str:
    return "no rack" if rack is None else f"rack {rack}"


def _figures(model: JobModel) -> dict[str, tuple[int, float]]:
    """Of each stage, its tasks, and in how many containers an SSP is read."""
    found, seats = {}, model.seats_of_tasks()
    for stage in model.stages:
        ratio = placement.consumption(stage.tasks, seats[stage.stage]) if len(model.containers) > 1 else 1.0
        found[stage.stage] = (len(stage.tasks), ratio)
    return found


def _told(lane: Lane) -> Lane:
    """A lane without what only its container tells."""
    return msgspec.structs.replace(lane, state=LaneState.PLANNED, ran=False, begun=False)


def _identical(before: tuple[WantedLane, ...], after: tuple[WantedLane, ...]) -> bool:
    """Whether they hold the very same lanes: quickly found out, as of thousands nearly all do."""
    if len(before) != len(after):
        return False
    for one, other in zip(before, after, strict=True):
        if one.lane is not other.lane or one.upstream_ended is not other.upstream_ended:
            return False
        if (one.closing, one.now) != (other.closing, other.now):
            return False
        if one.draining != other.draining:
            return False
    return True
