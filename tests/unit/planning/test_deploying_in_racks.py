"""Another version of a job whose tasks were placed by racks: they stay where they are."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from anabranch import Job
from anabranch.planning import plan as planning
from anabranch.planning import traffic
from anabranch.planning.assignment.assignor import Rules, Where
from anabranch.planning.plan import Placement
from anabranch.planning.transition import deploy
from anabranch.planning.transition.deploy import NextVersion
from tests.unit.planning.factory import around, new_id

BETWEEN = "j-by-dest-1"
REPLICAS = {"embedded/in": {p: ["a"] for p in range(4)}, f"embedded/{BETWEEN}": {p: ["b"] for p in range(4)}}
WHERE = Where(seats={"0": "a", "1": "b"}, partitions=REPLICAS)


def job(stateful: bool) -> Job:
    made = Job("j")
    rows = made.read("in", key="k string", schema="dest string")
    keyed = (rows.agg(dest="max(dest)", name="newest") if stateful else rows).partition_by("dest", name="by-dest")
    (keyed.agg(n="count(*)", name="counted") if stateful else keyed).write("out")
    return made


def version(stateful: bool, number: int) -> NextVersion:
    placement = Placement(rules=Rules(strategy="min_traffic"), racks=("a", "b"), replicas=REPLICAS)
    surroundings = replace(around("partition", 1, 2), partitions={"in": 4, BETWEEN: 4}, placement=placement)
    made = planning.make(job(stateful).graph, surroundings)
    return NextVersion(number, made.model, planning.lanes_of(made, 4, new_id))


@pytest.mark.parametrize("stateful", [False, True])
def test_no_task_moves_to_another_rack(stateful: bool) -> None:
    first, second = version(stateful, 1), version(stateful, 2)
    present = msgspec.structs.replace(first.model, run_id=1)
    change = deploy.deployed(second, present, first.lanes, new_id)
    before = traffic.of(first.lanes, WHERE)
    assert before.read == {"a": {"a": 4}, "b": {"b": 4}}, "each stage is in the rack of what it reads"
    assert traffic.of(change.lanes, WHERE) == before
    assert change.model.seats_of_tasks() == present.seats_of_tasks()
    seats = change.model.seats_of_tasks()
    assert all(seats[lane.stage][task] == lane.seat for lane in change.lanes for task in lane.tasks)
