"""``lanes = n``: the tasks of a container's stage are dealt to so many lanes, state excepted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from anabranch import Job
from anabranch import config as configuration
from anabranch.errors import ConfigError
from anabranch.planning import plan as planning
from anabranch.planning.plan import PlannedLane
from tests.unit.planning.factory import around, job


def planned(made: Job, lanes: int, factor: int = 1, containers: int = 1, **partitions: int) -> list[PlannedLane]:
    surroundings = replace(around("partition", factor, containers, **partitions), lanes=lanes)
    return list(planning.make(made.graph, surroundings).lanes)


def test_partitions_are_dealt_to_lanes_and_state_stays_together() -> None:
    lanes = planned(job(), 4, **{"in": 6})
    spread = [lane.tasks for lane in lanes if not lane.stateful]
    assert sorted(len(tasks) for tasks in spread) == [1, 1, 2, 2]
    assert sorted(task for tasks in spread for task in tasks) == [f"Partition_{p}" for p in range(6)]
    assert [len(lane.tasks) for lane in lanes if lane.stateful] == [6]


def test_all_buckets_of_a_partition_are_read_in_one_lane_if_that_is_as_even() -> None:
    lanes = planned(job(stateful=False), 4, factor=8, **{"in": 4})
    assert [{ssp.partition for ssp in lane.ssps} for lane in lanes] == [{0}, {1}, {2}, {3}]


def test_one_partition_is_read_in_several_lanes() -> None:
    lanes = planned(job(stateful=False), 4, factor=8, **{"in": 1})
    assert [len(lane.tasks) for lane in lanes] == [2, 2, 2, 2]
    assert [len({ssp.whole for ssp in lane.ssps}) for lane in lanes] == [1] * 4


@pytest.mark.parametrize(("lanes", "partitions", "made"), [(1, 4, 1), (4, 2, 2), (3, 1, 1)])
def test_there_are_no_lanes_without_tasks(lanes: int, partitions: int, made: int) -> None:
    assert len(planned(job(stateful=False), lanes, **{"in": partitions})) == made


def test_each_container_has_so_many() -> None:
    lanes = planned(job(stateful=False), 2, containers=2, **{"in": 4})
    assert [lane.seat for lane in lanes] == ["0", "0", "1", "1"]


def test_what_is_broadcast_goes_to_all_buckets_of_a_partition_in_one_lane() -> None:
    made = Job("j")
    rows = made.read("in", key="k string", schema="n int")
    rows.merge(made.read("rules", key="k string", schema="n int", broadcast=True)).write("out")
    lanes = planned(made, 4, factor=4, **{"in": 2, "rules": 1})
    assert [lane.bases for lane in lanes] == [(0,), (1,)]


def test_a_number_that_cannot_be_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANABRANCH__JOB__LANES", "0")
    with pytest.raises(ConfigError, match="lanes"):
        configuration.load()
