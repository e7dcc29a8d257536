"""One run: jobs, coordinators, containers and a user, what goes wrong among them, and whether all is well after it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count
from random import Random
from typing import Any
from uuid import UUID

from anabranch import Job
from anabranch.coordinator.api.client import AWAY
from anabranch.grouping import groupers
from anabranch.model.deployment_state import DeploymentState
from anabranch.model.graph import Graph
from anabranch.model.lane import Lane, LaneState, open_lanes
from anabranch.operators.rules import is_boundary
from anabranch.planning import plan, stages
from anabranch.planning.plan import Plan
from anabranch.planning.transition import follow
from anabranch.protocol.commands import RewindRequest, RewindResult, ScaleRequest, ScaleResult
from anabranch.protocol.deployment import DeployRequest, DeployResult, Program, RollbackRequest, StartRequest
from anabranch.protocol.drain import DrainNotification
from tests.simulation.containers import ContainerProcess
from tests.simulation.coordinators import LEASE, CoordinatorProcess
from tests.simulation.inputs import AT_FIRST, FINEST, PARTITIONS
from tests.simulation.invariants import Broken, Invariants
from tests.simulation.network import Client, Network
from tests.simulation.outputs import Storage
from tests.simulation.store import Database
from tests.simulation.world import Actor, World

_CALM, _FAULTS_FOR = 4.0, 40.0
_QUIET = 3 * LEASE + 10.0 + 6.0 + 12.0
"""3 leases, and the time of fences, of the ends of lanes, and of the first batches of those after them; a start after a
drain that ends only then; then a look at inputs that have grown, and that change."""
_SAID_AGAIN = 0.1
_REWINDS = 0.3
_DEPLOYS = 0.3
_FACTORS = (1, 2, 4, FINEST)
_TIMEOUT = 3.0
_BROADCASTS_EVERY = 3
"""Of so many seeds, in one jobs have a broadcast input."""

_Change = ScaleRequest | RewindRequest | DeployRequest | RollbackRequest


@dataclass
class _Wish:
    """What a user wants of a job. ``fenced``: whether its outputs can be. ``spare``: processes that stand by.

    ``change``: what was not answered yet; ``changed``: what was answered last.
    """

    plan: StartRequest
    fenced: bool
    spare: int
    runs: bool = True
    change: _Change | None = None
    changed: _Change | None = None
    cancels: bool = False
    drains: DrainNotification | None = None


class Scenario:
    """Everything that happens follows from the seed."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self.world = World(seed)
        self._broadcasts = seed % _BROADCASTS_EVERY == 0
        random = self.world.random
        self.database = Database()
        self.storage = Storage()
        self.invariants = Invariants(self.world, self.database, self.storage)
        self.network = Network(self.world, _TIMEOUT)
        self.servers = [f"coordinator-{number}" for number in range(random.randint(2, 3))]
        self._user = Actor(self.world, "user")
        self.partitions: dict[str, int] = {}
        self._wishes = {f"job{number}": self._wish(f"job{number}") for number in range(random.randint(1, 2))}
        self._coordinators = {name: self._coordinator(name) for name in self.servers}
        self._client = Client(self.network, self._user)
        self._containers: list[ContainerProcess] = []
        self._pids = 0
        self._rate = random.choice([0.0, 0.7, 1.0, 1.5, 3.0])
        self._changes = random.choice([0.0, 0.2, 0.5])
        self._requests = count()
        self._look_after()

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
        fenced = random.random() < 0.7
        self.partitions[job], factor = random.randint(1, AT_FIRST), random.choice(_FACTORS)
        graph, its = _planned(job, self.partitions[job], factor, random.randint(1, 2), self._broadcasts)
        self.storage.add(job, fenced=fenced)
        lanes = plan.lanes_of(its, 4, lambda: f"{random.getrandbits(32):08x}")
        standbys = Random(f"{self._seed} {job}").choice([0, 0, 1, 2])
        settings = {"job": {"expansion_check": "3 seconds", "artifact": "image"}, "assignment": {"standbys": standbys}}
        program = Program(artifact="0" * 64, file="job.py", settings=settings, schemas={})
        between = {f"output stream {stages.stream_of(graph, node)}": "" for node in graph.nodes if is_boundary(node)}
        start = StartRequest(graph=graph, model=its.model, lanes=lanes, fingerprint=between, program=program)
        return _Wish(start, fenced, random.randint(0, 1))

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
        """Keep as many processes as there are seats, and ask for what the user wants."""
        self._containers = [one for one in self._containers if not one.dead]
        for job, wish in self._wishes.items():
            for _ in range(self._seats(job, wish) + wish.spare - sum(one.job == job for one in self._containers)):
                self.world.after(self.world.between(0.2, 1.0), lambda job=job: self._container(job))  # type: ignore[misc]
            if self._is_met(job, wish) and self.world.chance(0.04):
                wish.runs = not wish.runs
                self._user.note(f"wants {job} to {'run' if wish.runs else 'stop'}")
            if not self._is_met(job, wish):
                self._ask(job, wish)
            self._change(job, wish)
            self._grow(job)
        self.world.after(1.0, self._look_after)

    def _seats(self, job: str, wish: _Wish) -> int:
        stored = self.database.deployments.get(job)
        if stored is None:
            return len(wish.plan.model.containers)
        last = max(stored)
        seats = {container.seat for container in self.database.models[job, last, stored[last].generation].containers}
        return len(seats | {lane.seat for lane in open_lanes(self.database.lanes[job].values())})

    def _ask(self, job: str, wish: _Wish) -> None:
        runs = wish.runs and not (self._has_failed(job) and self._state(job).active)

        def ask(by: CoordinatorProcess) -> None:
            if not runs:
                by.coordinator.stop(job)
            elif job in self.database.epochs:
                by.leadership.resume(job)
            else:
                by.leadership.start(wish.plan)

        self._client.call(ask, lambda found: None)

    def _state(self, job: str) -> DeploymentState:
        its = self.database.deployments[job]
        return DeploymentState(its[max(its)].state)

    def _has_failed(self, job: str) -> bool:
        return any(lane.state is LaneState.FAILED for lane in self.database.lanes.get(job, {}).values())

    def _is_met(self, job: str, wish: _Wish) -> bool:
        if job not in self.database.epochs:
            return False
        state = self._state(job)
        return state.runs and not self._has_failed(job) if wish.runs else not state.active

    def _change(self, job: str, wish: _Wish) -> None:
        """Scale or rewind a job now and then, and cancel that now and then. What was said is said again until it is
        answered."""
        random = self.world.random
        if not self.world.faults:
            wish.change, wish.changed, wish.cancels, wish.drains = None, None, False, None
            return
        if job not in self.database.epochs:
            return
        state = self._state(job)
        if wish.change is None and state is DeploymentState.RUNNING and random.random() < self._changes:
            wish.change = self._wanted(job, wish, f"request-{next(self._requests)}")
        if wish.drains is None and state.runs and random.random() < self._changes / 2:
            wish.drains = self._drain(job)
        if state in (DeploymentState.CHANGING, DeploymentState.DRAINING) and random.random() < self._changes / 4:
            self._user.note(f"cancels the change of {job}")
            wish.cancels = True
        change, again, cancels = wish.change, wish.changed, wish.cancels

        def scaled(found: object) -> None:
            if not isinstance(found, AWAY) and wish.change is change:
                wish.change, wish.changed = None, change

        def cancelled(found: object) -> None:
            if not isinstance(found, AWAY):
                wish.cancels = False

        if change is not None:
            self._client.call(lambda by: _changed(by, job, change), scaled)
        elif again is not None and random.random() < _SAID_AGAIN:
            self._client.call(lambda by: _changed(by, job, again), lambda found: None)
        if (drains := wish.drains) is not None:

            def drained(found: object) -> None:
                if not isinstance(found, AWAY) and wish.drains is drains:
                    wish.drains = None

            self._client.call(lambda by: by.coordinator.drain(job, drains), drained)
        if cancels:
            self._client.call(lambda by: by.coordinator.cancel(job), cancelled)

    def _drain(self, job: str) -> DrainNotification:
        random = self.world.random
        mode: Any = random.choice(["planned", "latest"])
        number = max(self.database.deployments[job])
        self._user.note(f"wants {job} to drain deployment {number}, up to {mode}")
        return DrainNotification(uuid=str(UUID(int=random.getrandbits(128))), run_id=number, mode=mode)

    def _wanted(self, job: str, wish: _Wish, request: str) -> _Change:
        random = self.world.random
        if random.random() < _DEPLOYS:
            if max(self.database.deployments[job]) > 1 and int(request.split("-")[1]) % 2:
                self._user.note(f"wants {job} to be rolled back")
                return RollbackRequest(request=request)
            self._user.note(f"wants {job} to be deployed")
            return DeployRequest(start=wish.plan, request=request)
        if random.random() < _REWINDS:
            ssps = sorted({str(ssp.whole) for task in wish.plan.model.stages[0].tasks for ssp in task.ssps})
            state: Any = random.choice(["keep", "clear"])
            some = ssps if state == "clear" else [random.choice(ssps)]
            to = {ssp: random.randint(0, 60) for ssp in some}
            self._user.note(f"wants {job} to be rewound to {to}, state: {state}")
            return RewindRequest(to=to, state=state, request=request)
        factor, containers = random.choice((None, None, *_FACTORS)), random.choice((None, 1, 2, 3))
        self._user.note(f"wants {job} to have factor {factor}, containers {containers}")
        return ScaleRequest(factor=factor, containers=containers, request=request)

    def _grow(self, job: str) -> None:
        """The input of a job gets twice as many partitions now and then."""
        wider = 2 * self.partitions[job]
        if self.world.chance(self._changes / 8) and wider <= len(PARTITIONS):
            self._user.note(f"gives the input of {job} {wider} partitions")
            self.partitions[job] = wider

    # What goes wrong

    def _harm(self) -> None:
        world, random = self.world, self.world.random
        if not world.faults:
            return
        harm = random.choice(
            [
                self._freeze,
                self._freeze,
                self._kill,
                self._strike,
                self._terminate,
                self._cut,
                self._cut,
                self._store,
                self._weather,
            ]
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

    def _strike(self, random: Random) -> None:
        """Kill a process of a job that is being changed."""
        changing = [job for job in self.database.epochs if self._state(job) is DeploymentState.CHANGING]
        those = [one for one in self._containers if one.job in changing]
        if those:
            random.choice(those).kill("killed in a change")

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
        for job, wish in self._wishes.items():
            if wish.runs:
                self._check_runs(job)
            elif self._state(job).active:
                raise Broken("progress", f"job {job} doesn't stop")

    def _check_runs(self, job: str) -> None:
        if self._state(job) is not DeploymentState.RUNNING:
            raise Broken("progress", f"job {job} is {self._state(job)}, and doesn't run")
        lanes = list(self.database.lanes[job].values())
        owned: Counter[tuple[str, int, int]] = Counter()
        for lane in follow.heads(lanes):
            if self.storage.output(lane).last_at < self.world.now - LEASE:
                raise Broken("progress", f"nobody writes for {lane.id}, which is {lane}")
            owned.update((lane.group, *cell) for cell in self.storage.share(lane).cells)
        groups, partitions = {lane.group for lane in lanes}, range(self.partitions[job])
        cells = Counter((group, number, cell) for group in groups for number in partitions for cell in range(FINEST))
        if owned != cells:
            raise Broken("progress", f"job {job}: nobody has {cells - owned}, several have {owned - cells}")
        self._check_standbys(job, [lane for lane in follow.heads(lanes) if lane.stateful])

    def _check_standbys(self, job: str, lanes: Sequence[Lane]) -> None:
        processes = [one for one in self._containers if one.job == job and not one.dead]
        seated = sum(one.seated for one in processes)
        due = min(self._wishes[job].plan.program.settings["assignment"]["standbys"], seated - 1)
        for lane in lanes:
            whole = {
                has.number
                for one in processes
                for has in one.standbys.reports
                if (has.lane, has.epoch) == (lane.id, lane.folder_epoch) and has.batch >= 0
            }
            if len(whole) < due:
                raise Broken("progress", f"{lane.id} has {len(whole)} standbys, not {due}")


def _changed(by: CoordinatorProcess, job: str, wish: _Change) -> ScaleResult | RewindResult | DeployResult:
    if isinstance(wish, DeployRequest):
        return by.coordinator.deploy(job, wish)
    if isinstance(wish, RollbackRequest):
        return by.coordinator.rollback(job, wish)
    if isinstance(wish, ScaleRequest):
        return by.coordinator.scale(job, wish)
    return by.coordinator.rewind(job, wish)


@cache
def _planned(job: str, partitions: int, factor: int, containers: int, broadcast: bool) -> tuple[Graph, Plan]:
    """A job with a stateless group and a stateful one."""
    made = Job(job)
    rows = made.read("in", key="k binary", schema="n int")
    if broadcast:
        rows = rows.merge(made.read("rules", key="k binary", schema="n int", broadcast=True))
    rows.where("n > 0").write("out")
    rows.agg(n="count(*)", name="counted").write("counts")
    around = plan.Surroundings(
        factor=factor,
        containers=containers,
        grouper_name="partition",
        grouper=groupers.named("partition"),
        partitions={"in": partitions, "rules": 1},
        systems={},
    )
    return made.graph, plan.make(made.graph, around)
