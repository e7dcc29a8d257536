"""What must hold at every step, whatever goes wrong."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from anabranch.model.deployment_state import DeploymentState
from anabranch.model.lane import Lane, LaneState

if TYPE_CHECKING:
    from anabranch.protocol.container import RegistrationResponse
    from tests.simulation.containers import ContainerProcess
    from tests.simulation.coordinators import CoordinatorProcess
    from tests.simulation.lane_runs import LaneRun
    from tests.simulation.outputs import Storage
    from tests.simulation.store import Database, MemoryStore
    from tests.simulation.world import World

NAMES = {
    "one-owner": "no two processes can write for a bucket of an SSP in one group, to an output or into one folder",
    "exactly-once": "each batch is in the output once, in order, with the rows that were planned for it",
    "each-once": "each group processes each message once, and those of a key in their order, whatever changes",
    "state-goes-along": "a stateful lane has seen all messages of its keys, itself or in the lanes before it",
    "predecessors-first": "no lane starts before all its predecessors are closed",
    "drained-is-exact": "lanes of a drained deployment end at one place, and time has ended for each",
    "progress": "once faults stop, a change ends and each SSP is read within 3 leases and the time of fences and ends",
    "epochs-rise": "epochs of a job only rise, and none is given twice; so do generations",
    "asked-once": "a wish leads to one generation, however often it is said",
    "closed-stays": "a closed lane never changes",
    "one-leader": "no two coordinators lead at once, and none writes that doesn't lead",
    "one-seat": "no two processes are told to be alive in one seat with leases that overlap",
    "stopped-is-stopped": "nobody can write for a job that has stopped",
    "gone-is-gone": "a process that has heard that it lost its seat begins nothing more",
}


class Broken(BaseException):
    """An invariant doesn't hold. No error of anabranch's own: nothing in it may catch this."""

    def __init__(self, name: str, what: str) -> None:
        assert name in NAMES
        super().__init__(f"{name}: {what}")
        self.name = name


class Invariants:
    """Looks on, and remembers what it needs to. What happens is told to it by the models."""

    def __init__(self, world: World, database: Database, storage: Storage) -> None:
        self._world = world
        self._storage = storage
        self._database = database
        self._epochs: dict[str, int] = {}
        self._registered = self._told = 0
        self._lanes: dict[str, Lane] = {}
        self._generations: dict[str, tuple[int, int]] = {}
        self._requests: set[tuple[str, str]] = set()
        self._states: dict[str, str] = {}
        self._runs: dict[str, list[LaneRun]] = {}
        self._leases: dict[tuple[str, str], dict[str, tuple[ContainerProcess, float]]] = {}
        self._stopped_at: dict[str, int] = {}
        self.coordinators: list[CoordinatorProcess] = []

    # What coordinators do

    def wrote(self, store: MemoryStore) -> None:
        """A coordinator has written to the store."""
        leader = self._database.leader
        if leader is not None and store.epoch not in (0, leader.epoch):
            raise Broken("one-leader", f"a write under epoch {store.epoch}, while {leader.epoch} leads")
        self._tell()
        new = list(self._database.containers.values())[self._registered :]
        self._registered += len(new)
        for one in new:
            self._given(one.job, one.epoch)
        for job, known in self._database.lanes.items():
            for lane in known.values():
                before = self._lanes.get(lane.id)
                if lane is not before:
                    self._lanes[lane.id] = lane
                    self._check_lane(lane, lane if before is None else before)
            its = self._database.deployments[job]
            deployment = its[max(its)]
            if (deployment.id, deployment.generation) != self._generations.get(job):
                self._check_generation(job, deployment.id, deployment.generation)
            if deployment.state != self._states.get(job):
                self._states[job] = deployment.state
                self._moved(job, DeploymentState(deployment.state))

    def _tell(self) -> None:
        """What coordinators log is part of what happened."""
        for event in self._database.events[self._told :]:
            why = f" ({event.why})" if event.why else ""
            self._world.trace.append((self._world.now, event.who, f"{event.job}: {event.what}{why}"))
        self._told = len(self._database.events)

    def _check_lane(self, lane: Lane, before: Lane) -> None:
        again = lane.unfenced and not before.unfenced
        if lane.epoch > self._epochs.get(lane.job, 0):
            self._given(lane.job, lane.epoch)
        if lane.epoch < before.epoch or (again and lane.epoch == before.epoch):
            raise Broken("epochs-rise", f"{lane.id} had epoch {before.epoch}, and gets {lane.epoch}")
        if lane.seat != before.seat and lane.epoch == before.epoch:
            raise Broken("epochs-rise", f"{lane.id} gets another seat under epoch {lane.epoch}")
        if before.state is LaneState.CLOSED and lane != before:
            raise Broken("closed-stays", f"{lane.id} was {before}, and is {lane}")

    def _check_generation(self, job: str, deployment: int, generation: int) -> None:
        last, before = self._generations.get(job, (0, 0))
        if (deployment, generation) not in ((last, before + 1), (last + 1, 1)):
            raise Broken("epochs-rise", f"generation {generation} of {job}, {deployment}, comes after {last}, {before}")
        self._generations[job] = deployment, generation
        request = self._database.models[job, deployment, generation].request
        if request and (job, request) in self._requests:
            raise Broken("asked-once", f"generation {generation} of job {job} is the second one of {request}")
        self._requests.add((job, request))

    def leads(self) -> None:
        """A coordinator acts as the one that leads."""
        leading = [one.name for one in self.coordinators if not one.dead and one.leads_until > self._world.now]
        if len(leading) > 1:
            raise Broken("one-leader", f"{' and '.join(leading)} lead")

    def alive(self, process: ContainerProcess, me: RegistrationResponse, until: float) -> None:
        """A process hears that it is alive; it counts its lease until then."""
        if until <= self._world.now or me.epoch <= self._stopped_at.get(process.job, 0):
            return
        its = self._leases.setdefault((process.job, str(me.seat)), {})
        its[process.name] = process, max(until, its.get(process.name, (process, 0.0))[1])
        others = [one for one, ends in its.values() if ends > self._world.now and one is not process and one.seated]
        if others:
            raise Broken("one-seat", f"{process.name} and {others[0].name} are both alive in seat {me.seat}")

    def _given(self, job: str, epoch: int) -> None:
        if epoch <= self._epochs.get(job, 0):
            raise Broken("epochs-rise", f"job {job} gives epoch {epoch} after {self._epochs[job]}")
        self._epochs[job] = epoch

    def _moved(self, job: str, state: DeploymentState) -> None:
        if state is DeploymentState.DRAINED:
            self._check_drained(job)
        if not state.active:
            self._stopped_at[job] = self._database.epochs[job]
            self._leases = {key: its for key, its in self._leases.items() if key[0] != job}
            for lane in self._database.lanes[job]:
                self._check_stopped(job, self.writers(lane))

    def _check_drained(self, job: str) -> None:
        deployment = max(self._database.deployments[job])
        its = [lane for lane in self._database.lanes[job].values() if lane.deployment == deployment]
        followed = {name for lane in its for name in lane.predecessors}
        left: dict[str, int] = {}
        for lane in its:
            if lane.state is not LaneState.CLOSED:
                raise Broken("drained-is-exact", f"job {job} is drained, and {lane.id} is {lane.state}")
            if lane.id in followed:
                continue
            folder = self._storage.folders.get((lane.id, lane.folder_epoch))
            if folder is None or not folder.over:
                raise Broken("drained-is-exact", f"job {job} is drained, and time hasn't ended for {lane.id}")
            for position in lane.final:
                if left.setdefault(str(position.ssp), position.offset) != position.offset:
                    raise Broken("drained-is-exact", f"{lane.id} ends {position}, others at {left}")

    # What containers do

    def starts(self, run: LaneRun) -> None:
        """A lane may write from now on."""
        if run.is_fenced:
            return
        lanes, its = self._database.lanes[run.lane.job], self._runs.setdefault(run.lane.id, [])
        for before in lanes[run.lane.id].predecessors:
            if lanes[before].state is not LaneState.CLOSED or self.writers(before):
                raise Broken("predecessors-first", f"{run.lane.id} starts while {before} is {lanes[before].state}")
        its[:] = [one for one in its if not one.process.dead and not one.ended]
        self._check_stopped(run.lane.job, [run])
        others = [other for lane in self._beside(run.lane) for other in self.writers(lane)]
        if others:
            what = f"{run.process.name} starts {run.lane.id} while {others[0].process.name} writes {others[0].lane.id}"
            raise Broken("one-owner", what)
        its.append(run)

    def _beside(self, lane: Lane) -> list[str]:
        """The lanes of its group that have some of its SSPs, or of their buckets."""
        cells = self._storage.share(lane).cells
        lanes = [each for name in self._runs if (each := self._lanes[name]).job == lane.job]
        return [
            each.id
            for each in lanes
            if (each.stage, each.group) == (lane.stage, lane.group)
            and not cells.isdisjoint(self._storage.share(each).cells)
        ]

    def writes(self, run: LaneRun) -> None:
        """A lane has published a batch, or plans one."""
        self._check_stopped(run.lane.job, [run])
        if self._lanes[run.lane.id].state is LaneState.CLOSED:
            raise Broken("closed-stays", f"{run.process.name} writes for {run.lane.id}, which is closed")

    def plans(self, run: LaneRun) -> None:
        if run.may_write:
            self.writes(run)
        if run.process.refused_at + run.process.TURN < self._world.now and not run.process.was_frozen:
            raise Broken("gone-is-gone", f"{run.process.name} plans a batch for {run.lane.id}")

    def writers(self, lane: str) -> list[LaneRun]:
        """Who could publish something for a lane, now or when it wakes."""
        return [run for run in self._runs.get(lane, []) if run.may_write]

    def _check_stopped(self, job: str, runs: Iterable[LaneRun]) -> None:
        state = self._states[job]
        for run in runs:
            if not DeploymentState(state).active:
                raise Broken("stopped-is-stopped", f"job {job} is {state}, and {run.process.name} has {run.lane.id}")
