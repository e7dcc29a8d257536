"""The coordinator's store as plain data, with the interface of the real one; and as a coordinator reaches it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from anabranch.coordinator.store import ContainerRecord, DeploymentRecord, Event, LeaderRecord
from anabranch.coordinator.store.records import seat_left, seat_lost, seat_taken
from anabranch.coordinator.store.sweeping import SweepResult
from anabranch.errors import NotLeadingError, StoreUnavailableError
from anabranch.model.deployment_state import DeploymentState
from anabranch.model.graph import Graph
from anabranch.model.job_model import JobModel
from anabranch.model.lane import Lane, open_lanes
from anabranch.protocol.container import Registration
from anabranch.protocol.deployment import StartRequest
from anabranch.protocol.drain import DrainProgress
from tests.simulation.world import Actor

_replace = msgspec.structs.replace
_TEARABLE = frozenset(
    {
        "change_deployment",
        "claim",
        "create_deployment",
        "expel",
        "leave",
        "move_deployment",
        "note",
        "put_drain",
        "put_lanes",
        "register",
        "renew",
        "replace_deployment",
        "reseat",
        "resign",
        "resume_deployment",
    }
)


@dataclass
class Database:
    """What is stored."""

    epochs: dict[str, int] = field(default_factory=dict)
    deployments: dict[str, dict[int, DeploymentRecord]] = field(default_factory=dict)
    graphs: dict[tuple[str, int], Graph] = field(default_factory=dict)
    models: dict[tuple[str, int, int], JobModel] = field(default_factory=dict)
    lanes: dict[str, dict[str, Lane]] = field(default_factory=dict)
    containers: dict[str, ContainerRecord] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    leader: LeaderRecord | None = None


class MemoryStore:
    """One coordinator's hold on a database; see :class:`anabranch.coordinator.store.Store`."""

    def __init__(self, database: Database, url: str = "memory") -> None:
        self.database = database
        self.url = url
        self.epoch: int | None = None

    def jobs(self) -> list[str]:
        return sorted(self.database.epochs)

    def deployment(self, job: str, number: int | None = None) -> DeploymentRecord | None:
        its = self.database.deployments.get(job)
        return None if not its else its.get(number or max(its))

    def last_state(self, job: str) -> tuple[int, int, DeploymentState] | None:
        its = self.deployment(job)
        return None if its is None else (its.id, its.generation, its.state)

    def graph(self, job: str, deployment: int) -> Graph:
        return self.database.graphs[job, deployment]

    def model(self, job: str, deployment: int, generation: int) -> JobModel:
        return self.database.models[job, deployment, generation]

    def has_request(self, job: str, deployment: int, request: str) -> bool:
        models = self.database.models.items()
        return any(key[:2] == (job, deployment) and model.request == request for key, model in models)

    def lanes(self, job: str) -> dict[str, Lane]:
        return dict(self.database.lanes.get(job, {}))

    def containers(self, job: str) -> list[ContainerRecord]:
        its = [one for one in self.database.containers.values() if one.job == job and one.gone is None]
        return sorted(its, key=lambda one: (one.seat, one.epoch))

    def container(self, container: str) -> ContainerRecord | None:
        return self.database.containers.get(container)

    def former(self, registration: Registration) -> ContainerRecord | None:
        its = (one for one in self._lost(registration.job) if one.is_of(registration))
        return next(its, None)

    def lost(self, job: str, limit: int) -> list[ContainerRecord]:
        return self._lost(job)[:limit]

    def open_lanes(self, job: str) -> list[Lane]:
        return open_lanes(self.lanes(job).values())

    def events(self, job: str, limit: int) -> list[Event]:
        return [event for event in self.database.events if event.job == job][-limit:]

    def leader(self) -> LeaderRecord | None:
        return self.database.leader

    def stand_by(self) -> None:
        self.epoch = 0 if self.epoch is None else self.epoch

    def claim(self, seen: LeaderRecord | None, holder: str) -> bool:
        self.epoch = 0
        if self.database.leader != seen:
            return False
        self.epoch = 1 if seen is None else seen.epoch + 1
        self.database.leader = LeaderRecord(epoch=self.epoch, holder=holder, beat=0)
        return True

    def renew(self) -> None:
        its = self._own()
        self.database.leader = _replace(its, beat=its.beat + 1)

    def resign(self) -> None:
        try:
            self.database.leader = _replace(self._own(), beat=-1)
        finally:
            self.epoch = 0

    def create_deployment(self, start: StartRequest, state: DeploymentState, event: Event) -> None:
        self.check_leads()
        job, number = start.graph.job, start.model.run_id
        self.database.epochs.setdefault(job, 0)
        self.database.graphs[job, number] = start.graph
        self.database.models[job, number, start.model.generation] = start.model
        self.database.deployments.setdefault(job, {})[number] = DeploymentRecord(
            job=job,
            id=number,
            state=state,
            generation=start.model.generation,
            fingerprint=start.fingerprint,
            promises=start.promises,
            formats=start.formats,
            program=start.program,
            until_caught_up=start.until_caught_up,
            error=None,
            created_at=event.at,
            changed_at=event.at,
        )
        self.database.lanes.setdefault(job, {}).update({lane.id: lane for lane in start.lanes})
        self.note([event])

    def replace_deployment(
        self,
        start: StartRequest,
        state: DeploymentState,
        former: DeploymentState,
        changed: Iterable[Lane],
        event: Event,
        noted: Sequence[Event] = (),
        gone: str = "",
    ) -> None:
        self.check_leads()
        job = start.graph.job
        self._move(job, start.model.replaces, former, None, event.at)
        self._put(changed)
        self.create_deployment(start, state, event)
        self.note(noted)
        if gone:
            self._leave(gone, lambda one: one.job == job)

    def resume_deployment(
        self, deployment: DeploymentRecord, state: DeploymentState, changed: Iterable[Lane], gone: str, event: Event
    ) -> None:
        self.check_leads()
        job = deployment.job
        self._move(job, deployment.id, state, None, event.at)
        its = self.database.deployments[job]
        its[deployment.id] = _replace(
            its[deployment.id], until_caught_up=deployment.until_caught_up, program=deployment.program
        )
        self._put(changed)
        self._leave(gone, lambda one: one.job == job)
        self.note([event])

    def move_deployment(
        self,
        job: str,
        deployment: int,
        state: DeploymentState,
        error: str | None,
        event: Event,
        drain: DrainProgress | None = None,
    ) -> None:
        self.check_leads()
        self._move(job, deployment, state, error, event.at)
        self._put_drain(job, deployment, drain)
        self.note([event])

    def put_drain(self, job: str, deployment: int, drain: DrainProgress | None, event: Event) -> None:
        self.check_leads()
        self._put_drain(job, deployment, drain)
        self.note([event])

    def change_deployment(
        self,
        model: JobModel,
        state: DeploymentState,
        changed: Iterable[Lane],
        new: Sequence[Lane],
        event: Event,
        noted: Sequence[Event] = (),
    ) -> None:
        self.check_leads()
        job, number = model.job, model.run_id
        self._move(job, number, state, None, event.at)
        self.database.models[job, number, model.generation] = model
        its = self.database.deployments[job]
        its[number] = _replace(its[number], generation=model.generation)
        self._put(changed)
        self.database.lanes[job].update({lane.id: lane for lane in new})
        self.note([event, *noted])

    def put_lanes(self, changed: Iterable[Lane], happened: Sequence[Event]) -> None:
        self.check_leads()
        self._put(changed)
        self.note(happened)

    def register(
        self, registration: Registration, seat: str, changed: Sequence[Lane], at: float
    ) -> tuple[ContainerRecord, list[Lane]]:
        self.check_leads()
        job, epoch = registration.job, self.next_epoch(registration.job)
        container = f"{job}:{seat}:{epoch}"
        self._leave(f"{container} has taken its seat", lambda one: one.job == job and one.seat == seat)
        record = ContainerRecord.of(registration, container, seat, epoch, at)
        self.database.containers[container] = record
        stored = [_replace(lane, epoch=epoch) for lane in changed]
        self._put(stored)
        self.note([seat_taken(record, at)])
        return record, stored

    def reseat(self, changed: Sequence[Lane], event: Event) -> list[Lane]:
        self.check_leads()
        epoch = self.next_epoch(event.job)
        stored = [_replace(lane, epoch=epoch) for lane in changed]
        self._put(stored)
        self.note([event])
        return stored

    def expel(self, process: ContainerRecord, changed: Sequence[Lane], why: str, at: float, who: str) -> list[Lane]:
        self.check_leads()
        epoch = self.next_epoch(process.job)
        self._leave(why, lambda one: one.id == process.id)
        stored = [_replace(lane, epoch=epoch) for lane in changed]
        self._put(stored)
        self.note([seat_lost(process, at, who, why)])
        return stored

    def leave(self, process: ContainerRecord, at: float) -> None:
        self.check_leads()
        self._leave(ContainerRecord.LEFT, lambda one: one.id == process.id)
        self.note([seat_left(process, at)])

    def note(self, happened: Sequence[Event]) -> None:
        self.check_leads()
        last = len(self.database.events)
        self.database.events += [_replace(each, id=number) for number, each in enumerate(happened, last + 1)]

    def check_leads(self) -> None:
        """Raises NotLeadingError if this store must lead to write, and doesn't."""
        if self.epoch is not None:
            self._own()

    def next_epoch(self, job: str) -> int:
        self.database.epochs[job] += 1
        return self.database.epochs[job]

    def _own(self) -> LeaderRecord:
        found = self.database.leader
        if found is None or found.epoch != self.epoch:
            raise NotLeadingError("this coordinator doesn't lead")
        return found

    def _lost(self, job: str) -> list[ContainerRecord]:
        its = [one for one in self.database.containers.values() if one.job == job and one.gone is not None]
        return sorted(its, key=lambda one: -one.epoch)

    def _move(self, job: str, deployment: int, state: DeploymentState, error: str | None, at: float) -> None:
        its = self.database.deployments[job]
        its[deployment] = _replace(its[deployment], state=state, error=error, changed_at=at)

    def _put_drain(self, job: str, deployment: int, drain: DrainProgress | None) -> None:
        its = self.database.deployments[job]
        its[deployment] = _replace(its[deployment], drain=drain)

    def _put(self, changed: Iterable[Lane]) -> None:
        for lane in changed:
            if lane.id in self.database.lanes.get(lane.job, {}):
                self.database.lanes[lane.job][lane.id] = lane

    def _leave(self, why: str, whose: Callable[[ContainerRecord], bool]) -> None:
        for one in self.database.containers.values():
            if one.gone is None and whose(one):
                self.database.containers[one.id] = _replace(one, gone=why)


class Line:
    """A store as a coordinator reaches it: sometimes away, sometimes slow, and sometimes the answer is lost.

    Args:
        wrote: is told after each call that may have written.
    """

    def __init__(self, store: MemoryStore, actor: Actor, wrote: Callable[[MemoryStore], None]) -> None:
        self.url = store.url
        self.away_until = 0.0
        self._store = store
        self._actor = actor
        self._wrote = wrote

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method, writes = getattr(self._store, name), name in _TEARABLE

        def call(*args: Any) -> Any:
            self._reach(0.004 if writes else 0.001)
            done = method(*args)
            if writes:
                self._wrote(self._store)
                if self._actor.world.chance(0.004):
                    self._actor.note(f"{name} is stored, but its answer is lost")
                    raise StoreUnavailableError("the store's answer is lost")
                self._reach(0.004)
            return done

        self.__dict__[name] = call
        return call

    def sweep(self, events: int, versions: int, unused: Mapping[str, str]) -> SweepResult:
        """Nothing becomes that old here. It takes no chance, so that seeds stay what they were."""
        return SweepResult()

    def _reach(self, slow: float) -> None:
        world = self._actor.world
        if self.away_until > world.now:
            raise StoreUnavailableError("the store is away")
        if world.chance(slow):
            world.hold(self._actor, world.between(0.1, 9.0))
