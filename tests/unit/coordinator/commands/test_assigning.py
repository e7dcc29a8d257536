"""A coordinator that places tasks by racks: when that is wished, when a job is scaled, and when it goes back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from anabranch import Job
from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.store import Store
from anabranch.errors import AnabranchError, ConflictError, NotFoundError
from anabranch.model.traffic import Traffic
from anabranch.planning import plan as planning
from anabranch.planning.assignment.assignor import Rules
from anabranch.protocol.commands import AssignRequest, ScaleRequest
from anabranch.protocol.container import Registration
from anabranch.protocol.deployment import StartRequest
from tests.support.verbs import Call, served
from tests.unit.coordinator.coping import Coping
from tests.unit.coordinator.helpers import Clock
from tests.unit.coordinator.programs import PROGRAM
from tests.unit.planning.factory import around, new_id

JOB, IN = "j", "kafka/in"
RACKS = ("a", "b", "c")
BY_RACKS = {"strategy": "min_traffic"}


class Replicas:
    """Where a cluster would say that partitions are."""

    def __init__(self) -> None:
        self.racks: dict[int, tuple[str | None, ...]] = {number: (RACKS[number % 3],) for number in range(6)}
        self.asked = 0
        self.away = False

    def __call__(self, job: str, settings: Mapping[str, Any], streams: Iterable[str]) -> dict[str, Any]:
        self.asked += 1
        if self.away:
            raise AnabranchError("the cluster doesn't answer", "look")
        return {name: self.racks for name in streams if name == IN}


def start(
    assignment: dict[str, Any], containers: int = 3, racks: tuple[str, ...] = (), grouper: str = "partition"
) -> StartRequest:
    made = Job(JOB)
    made.read("in", key="k binary", schema="n int").agg(n="count(*)", name="counted").write("counts")
    surroundings = replace(
        around(grouper, containers=containers, **{"in": 6}),
        systems={"in": "kafka"},
        placement=planning.Placement(
            Rules(strategy=assignment.get("strategy", "none")), racks, {IN: Replicas().racks} if racks else {}
        ),
    )
    plan = planning.make(made.graph, surroundings)
    program = msgspec.structs.replace(PROGRAM, settings={**PROGRAM.settings, "assignment": assignment})
    lanes = planning.lanes_of(plan, 4, new_id)
    return StartRequest(graph=made.graph, model=plan.model, lanes=lanes, fingerprint={}, program=program)


@pytest.fixture
def replicas() -> Replicas:
    return Replicas()


@pytest.fixture
def coordinator(replicas: Replicas, clock: Clock) -> Coordinator:
    return Coordinator(
        Store("sqlite://"), clock=clock, lease=10, grace=2, locating=replicas, counting=lambda *_: {IN: 6}
    )


def crew(coordinator: Coordinator, *racks: str | None) -> list[Coping]:
    """Containers in these racks, which come in this order; their job runs."""
    for number, rack in enumerate(racks):
        me = Registration(job=JOB, execution=f"execution-{number}", host="here", pid=number, rack=rack)
        coordinator.register(me)
    held = coordinator.status(JOB).containers
    workers = [Coping(coordinator, each.seat, pid=each.pid) for each in held]
    turns(workers)
    assert coordinator.status(JOB).state == "running"
    return workers


def turns(workers: Iterable[Coping], count: int = 8) -> None:
    for _ in range(count):
        for worker in workers:
            worker.turn()


def placed(coordinator: Coordinator) -> dict[str, str]:
    model = coordinator.model(JOB)
    return {name: each.seat for each in model.containers for name in each.tasks["0"]}


def by_rack(coordinator: Coordinator) -> dict[str, str | None]:
    return {each.seat: each.rack for each in coordinator.status(JOB).containers}


def test_tasks_go_to_the_racks_of_their_partitions_when_it_is_wished(
    coordinator: Coordinator, replicas: Replicas
) -> None:
    coordinator.start(start(BY_RACKS))
    workers = crew(coordinator, "a", "b", "c")
    (told,) = coordinator.status(JOB).warnings
    assert told.startswith("tasks were placed for other racks: seat 0 is in rack a, not no rack, seat 1 is in rack b")
    before = placed(coordinator)
    dry = coordinator.assign(JOB, AssignRequest(dry=True))
    assert (placed(coordinator), coordinator.status(JOB).state) == (before, "running")
    assert dry.before is not None
    assert dry.after is not None
    assert (dry.before.across, dry.after.across, dry.after.total) == (4, 0, 6)
    assert dry.after == Traffic(read={rack: {rack: 2} for rack in RACKS})
    assert dry.moved == sum(seat != str(int(name[-1]) % 3) for name, seat in before.items()) > 0
    done = coordinator.assign(JOB, AssignRequest(request="once"))
    assert coordinator.status(JOB).state == "changing"
    assert coordinator.assign(JOB, AssignRequest(request="once")).generation == done.generation
    turns(workers)
    status = coordinator.status(JOB)
    assert (status.state, status.generation, status.warnings) == ("running", 2, ())
    assert placed(coordinator) == {f"Partition_{number}": str(number % 3) for number in range(6)}
    assert [each.rack for each in coordinator.model(JOB).containers] == list(RACKS)
    again = coordinator.assign(JOB, AssignRequest(request="twice"))
    assert (again.lanes, again.generation) == ((), 2)
    assert coordinator.status(JOB).generation == 2


def test_what_is_in_all_racks_need_not_move_and_it_is_known_that_it_was_looked_at(
    coordinator: Coordinator, replicas: Replicas
) -> None:
    replicas.racks = dict.fromkeys(range(6), RACKS)
    coordinator.start(start(BY_RACKS))
    crew(coordinator, *RACKS)
    lanes = [each.lane.id for each in coordinator.status(JOB).lanes]
    assert coordinator.assign(JOB, AssignRequest()).lanes == ()
    status = coordinator.status(JOB)
    assert (status.state, status.generation, status.warnings) == ("running", 2, ())
    assert [each.lane.id for each in status.lanes] == lanes


def test_replicas_that_moved_are_taken_up(coordinator: Coordinator, replicas: Replicas) -> None:
    coordinator.start(start(BY_RACKS, racks=RACKS))
    workers = crew(coordinator, *RACKS)
    assert placed(coordinator)["Partition_0"] == "0"
    replicas.racks |= {0: ("b",), 1: ("a",)}
    told = coordinator.assign(JOB, AssignRequest())
    assert told.moved == 2
    turns(workers)
    assert (placed(coordinator)["Partition_0"], placed(coordinator)["Partition_1"]) == ("1", "0")


def test_a_container_takes_the_seat_that_was_placed_for_its_rack(coordinator: Coordinator) -> None:
    coordinator.start(start(BY_RACKS, racks=RACKS))
    crew(coordinator, "c", "a", "x")
    assert by_rack(coordinator) == {"2": "c", "0": "a", "1": "x"}
    assert coordinator.status(JOB).warnings == (
        "tasks were placed for other racks: seat 1 is in rack x, not rack b: see anabranch plan assign j",
    )


def test_what_is_not_known_is_said_and_nothing_moves(coordinator: Coordinator, replicas: Replicas) -> None:
    coordinator.start(start(BY_RACKS))
    crew(coordinator, "a", "b", None)
    told = coordinator.assign(JOB, AssignRequest())
    assert (told.lanes, told.why_not, told.after) == ((), "container seat 2 has no rack", None)
    replicas.away = True
    with pytest.raises(AnabranchError, match="doesn't answer"):
        coordinator.assign(JOB, AssignRequest())


@pytest.mark.parametrize("racks", [("a", "b", ""), RACKS])
def test_an_empty_rack_is_none(coordinator: Coordinator, racks: tuple[str, ...]) -> None:
    """As a container reports it whose setting is a variable that is empty there, or as settings name it."""
    coordinator.start(start({"racks": [*RACKS, ""]}))
    crew(coordinator, *racks)
    assert "" not in by_rack(coordinator).values()
    told = coordinator.scale(JOB, ScaleRequest(containers=4, dry=True))
    assert (told.before is None, told.after, told.containers) == ("" in racks, None, 4)


def test_scaling_places_by_racks_and_a_cancelled_change_goes_back(coordinator: Coordinator) -> None:
    coordinator.start(start(BY_RACKS, racks=RACKS))
    workers = crew(coordinator, *RACKS)
    before = placed(coordinator)
    told = coordinator.scale(JOB, ScaleRequest(factor=2))
    assert told.after is not None
    assert (told.after.across, told.moved) == (0, 0)
    turns(workers)
    fewer = coordinator.scale(JOB, ScaleRequest(containers=2))
    assert fewer.after is not None
    assert fewer.after.read.keys() == {"a", "b"}
    assert len({placed(coordinator)[f"Partition_2-{bucket}-2"] for bucket in (0, 1)}) == 1
    coordinator.cancel(JOB)
    turns(workers)
    assert coordinator.status(JOB).state == "running"
    coordinator.scale(JOB, ScaleRequest(factor=1))
    turns(workers)
    assert placed(coordinator) == before


def test_the_autosizer_places_by_the_racks_of_now_and_waits_while_they_are_not_known(
    coordinator: Coordinator, replicas: Replicas, clock: Clock
) -> None:
    wished = start(BY_RACKS, racks=RACKS)
    assert wished.program is not None
    wished.program.settings["job"] = {"autoscale": {"max": 8}}
    coordinator.start(wished)
    workers = crew(coordinator, *RACKS)

    def passed(seconds: int) -> None:
        for _ in range(seconds):
            clock.at += 1
            turns(workers, 1)
            asked = replicas.asked
            coordinator.tick()
            assert replicas.asked == asked, "this thread renews the lead, and an answer can take long"
            coordinator.look()

    for worker in workers:
        worker.working = 1.0
    replicas.away, before = True, replicas.asked
    passed(50)
    assert (coordinator.model(JOB).factor, coordinator.status(JOB).state) == (1, "running")
    assert replicas.asked == before + 2, "when it is due at first, and when the autosizer wants it"
    assert not [each for each in coordinator.events(JOB) if each.kind == "autoscale"]
    assert "waits until it is known in which racks" in coordinator.sizing(JOB).autoscale
    replicas.away = False
    replicas.racks |= {0: ("b",), 1: ("a",)}
    passed(60)
    assert coordinator.model(JOB).factor == 2
    seats = placed(coordinator)
    assert {seats[name] for name in seats if name.startswith("Partition_0")} == {"1"}


@pytest.mark.parametrize("grouper", ["partition", "mine:group"])
def test_an_assignment_can_be_cancelled(coordinator: Coordinator, replicas: Replicas, grouper: str) -> None:
    """Also with a grouper that can't be called while the job runs: the tasks stay the same."""
    if ":" in grouper:  # its only task begins in another rack
        replicas.racks |= dict.fromkeys(range(6), ("c",))
    coordinator.start(start(BY_RACKS, grouper=grouper))
    workers = crew(coordinator, *RACKS)
    before = placed(coordinator)
    coordinator.assign(JOB, AssignRequest())
    assert placed(coordinator) != before
    coordinator.cancel(JOB)
    turns(workers)
    assert (placed(coordinator), coordinator.status(JOB).state) == (before, "running")


def test_without_racks_no_system_is_asked(coordinator: Coordinator, replicas: Replicas) -> None:
    coordinator.start(start({}))
    crew(coordinator, None, None, None)
    coordinator.look()
    told = coordinator.assign(JOB, AssignRequest())
    assert (told.lanes, told.why_not, told.before, replicas.asked) == ((), "", None, 0)


def test_where_racks_only_are_shown_a_system_need_not_answer(coordinator: Coordinator, replicas: Replicas) -> None:
    coordinator.start(start({}))
    crew(coordinator, *RACKS)
    told = coordinator.scale(JOB, ScaleRequest(factor=2, dry=True))
    assert told.before is not None
    assert told.before.across == 4
    replicas.away = True
    told = coordinator.scale(JOB, ScaleRequest(factor=2, dry=True))
    assert (told.before, len(told.lanes)) == (None, 3)


def test_not_while_it_runs_in_real_time(coordinator: Coordinator) -> None:
    wished = start(BY_RACKS)
    assert wished.program is not None
    wished.program.settings["job"] = {"trigger": "real-time"}
    coordinator.start(wished)
    crew(coordinator, *RACKS)
    with pytest.raises(ConflictError, match="runs in real time"):
        coordinator.assign(JOB, AssignRequest())


@pytest.fixture
def run(tmp_path: Path, coordinator: Coordinator) -> Iterator[Call]:
    coordinator.start(start(BY_RACKS))
    crew(coordinator, *RACKS)
    with served(coordinator, tmp_path) as call:
        yield call


def test_the_verbs(run: Call, tmp_path: Path) -> None:
    page = tmp_path / "plan.html"
    told, _ = run("plan", "assign", JOB, "--html", str(page))
    assert "4 task(s) would get another container" in told
    assert "partitions read across racks: 4 → 0 of 6" in told
    assert page.read_text().count("<svg") == 2
    assert "4 of 6 across racks" in page.read_text()
    told, _ = run("assign", "explain", JOB, "Partition_1")
    assert told.startswith("stage 0, Partition_1: in seat 0, rack a; it should be in seat 1")
    assert "costs 4; none costs less" in told
    assert "moves from seat 0 to seat 1; all it reads has a replica in rack b" in told
    assert json.loads(run("assign", "explain", JOB, "Partition_0", "--json")[0])["0"]["seat"] == "0"
    _, said = run("assign", "apply", JOB, "--detach")
    assert "4 task(s) get another container; partitions read across racks: 4 → 0 of 6" in said
    with pytest.raises(NotFoundError, match="no task Partition_9"):
        run("assign", "explain", JOB, "Partition_9")
