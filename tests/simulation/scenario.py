"""One run: jobs, coordinators, containers and a user, what goes wrong among them, and whether all is well after it."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from anabranch.coordinator.states import DeploymentState
from anabranch.errors import AnabranchError, NotLeadingError
from anabranch.messages import Program, Start
from anabranch.model.graph import Graph
from anabranch.model.job_model import ContainerModel, JobModel
from anabranch.model.lane import Lane, LaneState
from anabranch.model.ssp import SSP
from tests.simulation.containers import ContainerProcess
from tests.simulation.coordinators import LEASE, CoordinatorProcess
from tests.simulation.invariants import Broken, Invariants
from tests.simulation.network import Client, Network
from tests.simulation.outputs import Output, Storage
from tests.simulation.store import Database
from tests.simulation.world import Actor, World

_CALM, _FAULTS_FOR = 4.0, 40.0
_QUIET = 3 * LEASE + 5.0
"""3 leases, and the time of a fence and of a lane's first batch."""
_TIMEOUT = 3.0


@dataclass
class _Wish:
    """What a user wants of a job. ``fenced``: whether its outputs can be."""

    plan: Start
    fenced: bool
    runs: bool = True


class Scenario:
    """Everything that happens follows from the seed."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        random = self.world.random
        self.database = Database()
        self.storage = Storage()
        self.invariants = Invariants(self.world, self.database)
        self.network = Network(self.world, _TIMEOUT)
        self.servers = [f"coordinator-{number}" for number in range(random.randint(2, 3))]
        self._user = Actor(self.world, "user")
        self._wishes = {f"job{number}": self._wish(f"job{number}") for number in range(random.randint(1, 2))}
        self._coordinators = {name: self._coordinator(name) for name in self.servers}
        self._client = Client(self.network, self._user)
        self._containers: list[ContainerProcess] = []
        self._pids = 0
        for job, wish in self._wishes.items():
            for _ in range(len(wish.plan.model.containers) + random.randint(0, 1)):
                self._container(job)
        self._rate = random.choice([0.0, 0.7, 1.0, 1.5, 3.0])
        self._closing = {
            before for wish in self._wishes.values() for lane in wish.plan.lanes for before in lane.predecessors
        }
        self._look_after()
        self._change()

    def run(self) -> None:
        """Raises Broken."""
        world = self.world
        world.run(_CALM)
        world.faults = True
        if self._rate:
            self._harm()
        world.run(_FAULTS_FOR)
        world.trace.append((world.now, "world", "nothing goes wrong any more"))
        world.faults = False
        self.network.loss = self.network.slow = 0.0
        self.network.cut.clear()
        for one in [*self._coordinators.values(), *self._containers]:
            one.frozen_until = 0.0
        for name in self.servers:
            self._coordinators[name].line.away_until = 0.0
            self._restart(name)
        world.run(_FAULTS_FOR + _QUIET)
        self._check_progress()

    # Who takes part

    def _wish(self, job: str) -> _Wish:
        random = self.world.random
        seats, fenced = [str(seat) for seat in range(random.randint(1, 2))], random.random() < 0.7
        lanes = [_lane(job, f"{job}-read-{seat}", seat) for seat in seats]
        if random.random() < 0.6:
            lanes.append(_lane(job, f"{job}-next", random.choice(seats), predecessors=(lanes[0].id,)))
        if random.random() < 0.4:
            lanes.append(_lane(job, f"{job}-by", random.choice(seats), upstream=(lanes[0].id,)))
        for lane in lanes:
            self.storage.outputs[lane.id] = Output(fenced)
        model = JobModel(
            job=job,
            run_id=0,
            generation=0,
            factor=1,
            stages=(),
            containers=tuple(ContainerModel(seat=seat, tasks={}) for seat in seats),
        )
        program = Program(artifact="0" * 64, file="job.py", settings={}, schemas={})
        start = Start(graph=Graph(job=job, nodes=()), model=model, lanes=tuple(lanes), fingerprint={}, program=program)
        return _Wish(start, fenced)

    def _coordinator(self, name: str) -> CoordinatorProcess:
        made = CoordinatorProcess(self, name)
        self.network.join(made)
        self.invariants.coordinators.append(made)
        return made

    def _container(self, job: str) -> None:
        self._pids += 1
        survives = self._wishes[job].fenced
        made = ContainerProcess(self, f"process-{self._pids}", job, self._pids, survives=survives)
        self._containers.append(made)

    def _restart(self, name: str) -> None:
        if self._coordinators[name].dead:
            away = self._coordinators[name].line.away_until
            self._coordinators[name] = self._coordinator(name)
            self._coordinators[name].line.away_until = away

    # What the user and who starts processes do

    def _look_after(self) -> None:
        """Start a process for each one that ended, and ask for what the user wants."""
        for one in [one for one in self._containers if one.dead]:
            self._containers.remove(one)
            self.world.after(self.world.between(0.2, 1.5), lambda job=one.job: self._container(job))  # type: ignore[misc]
        for job, wish in self._wishes.items():
            if self._is_met(job, wish) and self.world.chance(0.06):
                wish.runs = not wish.runs
                self._user.note(f"wants {job} to {'run' if wish.runs else 'stop'}")
            if not self._is_met(job, wish):
                self._ask(job, wish)
        self.world.after(1.0, self._look_after)

    def _ask(self, job: str, wish: _Wish) -> None:
        runs = wish.runs

        def ask(by: CoordinatorProcess) -> None:
            if not runs:
                by.coordinator.stop(job)
            elif job in self.database.epochs:
                by.leading.resume(job)
            else:
                by.leading.start(wish.plan)

        self._client.call(ask, lambda found: None)

    def _is_met(self, job: str, wish: _Wish) -> bool:
        if job not in self.database.epochs:
            return False
        state = DeploymentState(self.database.deployments[job][1].state)
        return state in {DeploymentState.STARTING, DeploymentState.RUNNING} if wish.runs else not state.active

    def _change(self) -> None:
        """Lanes that have successors end for good, sooner or later."""
        for one in self._coordinators.values():
            one.after(0.0, lambda one=one: self._close_lanes(one))  # type: ignore[misc]
        self.world.after(self.world.between(1.0, 6.0) if self.world.faults else 1.0, self._change)

    def _close_lanes(self, coordinator: CoordinatorProcess) -> None:
        for job in self._wishes:
            try:
                coordinator.handle(lambda by, job=job: by.close_lanes(job, self._closing))  # type: ignore[misc]
            except NotLeadingError:
                return
            except AnabranchError as error:
                coordinator.note(f"can't close lanes now: {error.what}")

    # What goes wrong

    def _harm(self) -> None:
        world, random = self.world, self.world.random
        if not world.faults:
            return
        harm = random.choice(
            [self._freeze, self._freeze, self._kill, self._terminate, self._cut, self._cut, self._store, self._weather]
        )
        harm(random)
        world.after(world.between(0.0, 8.0) / self._rate, self._harm)

    def _freeze(self, random: Random) -> None:
        random.choice([*self._containers, *self._coordinators.values()]).freeze(random.choice([0.5, 3.0, 6.0, 12.0]))

    def _kill(self, random: Random) -> None:
        one = random.choice([*self._containers, *self._coordinators.values()])
        one.kill("killed")
        if isinstance(one, CoordinatorProcess):
            self.world.after(self.world.between(0.2, 8.0), lambda: self._restart(one.name))

    def _terminate(self, random: Random) -> None:
        if self._containers:
            random.choice(self._containers).terminate()

    def _cut(self, random: Random) -> None:
        alone = random.choice(self._containers) if self._containers and random.random() < 0.5 else None
        pairs = set()
        for one in self._containers:
            for server in self.servers:
                if one is alone or (alone is None and random.random() < 0.6):
                    pairs |= {(one.name, server), (server, one.name)}
        if random.random() < 0.4:
            pairs = {pair for pair in sorted(pairs) if random.random() < 0.5}
        self.network.cut |= pairs
        seconds = random.choice([1.0, 6.0, 10.0, 14.0])
        self._user.note(f"the network is cut for {seconds:g} s: {sorted(pairs)}")
        self.world.after(seconds, lambda: self.network.cut.difference_update(pairs))

    def _store(self, random: Random) -> None:
        cut_off = [one for one in self._coordinators.values() if random.random() < 0.7]
        for one in cut_off:
            one.line.away_until = self.world.now + random.choice([0.5, 2.0, 6.0, 10.0])
            one.note(f"has no store until {one.line.away_until:.2f}")

    def _weather(self, random: Random) -> None:
        self.network.loss, self.network.slow = random.choice([(0.0, 0.0), (0.1, 0.1), (0.4, 0.1), (0.05, 0.6)])
        self._user.note(f"of all messages {self.network.loss:.0%} are lost and {self.network.slow:.0%} are late")

    # In the end

    def _check_progress(self) -> None:
        now = self.world.now
        for job, wish in self._wishes.items():
            if not self._is_met(job, wish):
                raise Broken("progress", f"job {job} doesn't {'run' if wish.runs else 'stop'}")
            lanes = self.database.lanes[job]
            for lane in lanes.values() if wish.runs else ():
                due = lane.state is not LaneState.CLOSED and all(
                    self.invariants.closed_at.get(before, now) < now - LEASE for before in lane.predecessors
                )
                if due and self.storage.outputs[lane.id].last_at < now - LEASE:
                    raise Broken("progress", f"nobody writes for {lane.id}, which is {lane}")


def _lane(job: str, lane: str, seat: str, **fields: tuple[str, ...]) -> Lane:
    ssp = SSP(system="embedded", stream=lane, partition=0)
    return Lane(
        id=lane,
        job=job,
        deployment=0,
        stage="0",
        group="outputs",
        seat=seat,
        tasks=("Partition_0",),
        ssps=(ssp,),
        **fields,
    )
