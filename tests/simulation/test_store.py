"""The store of the simulation does what the real one does."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest

from anabranch.coordinator.store import ContainerRecord, Event, Store
from anabranch.errors import NotLeadingError
from anabranch.model.deployment_state import DeploymentState
from anabranch.model.graph import Graph
from anabranch.model.job_model import ContainerModel, JobModel
from anabranch.model.lane import Lane, LaneState
from anabranch.model.ssp import SSP
from anabranch.protocol.container import Registration
from anabranch.protocol.deployment import StartRequest
from tests.simulation.store import Database, MemoryStore

_STEPS = 80


def _plan(job: str, number: int) -> StartRequest:
    ssp = SSP(system="embedded", stream="flights", partition=0)
    fields: dict[str, Any] = {"stage": "0", "group": "outputs", "tasks": ("Partition_0",), "ssps": (ssp,)}
    lanes = tuple(Lane(id=f"{job}-{number}-{k}", job=job, deployment=number, seat=str(k), **fields) for k in range(2))
    seats = tuple(ContainerModel(seat=str(k), tasks={}) for k in range(2))
    model = JobModel(job=job, run_id=number, generation=1, factor=1, stages=(), containers=seats)
    return StartRequest(graph=Graph(job=job, nodes=()), model=model, lanes=lanes, fingerprint={"factor": "1"})


class _Steps:
    """The same random calls, made of what was read before; what each gave."""

    def __init__(self, seed: int, stores: list[Store] | list[MemoryStore]) -> None:
        self._random = Random(seed)
        self._stores = stores
        self._numbers: dict[str, int] = {}

    def run(self) -> list[object]:
        found: list[object] = []
        for at in range(_STEPS):
            store = self._random.choice(self._stores)
            try:
                found.append(self._one(store, float(at)))
            except NotLeadingError:
                found.append("not leading")
            found += self._look(self._stores[0])
        return found

    def _one(self, store: Any, at: float) -> object:
        random = self._random
        job = random.choice("ab")
        event = Event(kind="other", job=job, at=at, who="user", what="did", why="so")
        what = random.randrange(13)
        if what == 0:
            return store.claim(store.leader() if random.random() < 0.8 else None, f"holder-{at}")
        if what == 1:
            return store.renew()
        if what == 2 and random.random() < 0.3:
            return store.resign()
        if what == 3 or store.deployment(job) is None:
            number = self._numbers.get(job, 0) + 1
            store.create_deployment(_plan(job, number), DeploymentState.PLANNED, event)
            self._numbers[job] = number
            return None
        deployment = store.deployment(job)
        lanes = [
            msgspec.structs.replace(lane, state=random.choice(list(LaneState)), ran=random.random() < 0.5)
            for lane in store.lanes(job).values()
            if random.random() < 0.5
        ]
        if what == 4:
            changed = msgspec.structs.replace(deployment, until_caught_up=random.random() < 0.5)
            return store.resume_deployment(changed, DeploymentState.STARTING, lanes, "again", event)
        if what == 5:
            return store.move_deployment(
                job, deployment.id, DeploymentState.FAILED, random.choice([None, "why"]), event
            )
        if what == 6:
            return store.put_lanes(lanes, [event])
        if what == 11:
            generation = deployment.generation + 1
            its = _plan(job, deployment.id)
            model = msgspec.structs.replace(its.model, generation=generation)
            new = [msgspec.structs.replace(lane, id=f"{lane.id}-{generation}") for lane in its.lanes]
            return store.change_deployment(model, DeploymentState.CHANGING, lanes, new, event)
        if what == 12:
            return store.reseat([msgspec.structs.replace(lane, seat="1") for lane in lanes], event)
        if what == 9:
            return store.note([event, event])
        processes: list[ContainerRecord] = store.containers(job)
        if what == 7 and processes:
            return store.expel(random.choice(processes), lanes, "silent", at, "coordinator")
        if what == 8 and processes:
            return store.leave(random.choice(processes), at)
        return store.register(_registration(job, random.randrange(4)), random.choice("01"), lanes, at)

    def _look(self, store: Any) -> list[object]:
        found: list[object] = [store.jobs(), store.leader()]
        for job in "ab":
            found += [store.deployment(job), store.lanes(job), store.containers(job), store.lost(job, 3)]
            found += [store.events(job, 5), [store.former(_registration(job, pid)) for pid in range(4)]]
            found += [store.container(f"{job}:0:{epoch}") for epoch in (1, 2, 3)]
            if (deployment := store.deployment(job)) is not None:
                found += [store.graph(job, deployment.id), store.model(job, deployment.id, deployment.generation)]
        return found


def _registration(job: str, pid: int) -> Registration:
    return Registration(job=job, execution=f"execution-{pid}", host="here", pid=pid)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("stands_by", [True, False])
@pytest.mark.suite(cases=4)
def test_it_does_what_the_real_one_does(seed: int, stands_by: bool, tmp_path: Any) -> None:
    database = Database()
    mine = [MemoryStore(database) for _ in range(2)]
    real = [Store(f"sqlite:///{tmp_path}/store.db") for _ in range(2)]
    for store in [*mine, *real] if stands_by else []:
        store.stand_by()
    expected, found = _Steps(seed, real).run(), _Steps(seed, mine).run()
    for step, (one, other) in enumerate(zip(expected, found, strict=True)):
        assert other == one, f"look {step}"
    for store in real:
        store.close()
