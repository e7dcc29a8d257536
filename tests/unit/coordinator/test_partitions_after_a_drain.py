"""Partitions that are added while a job is drained: its next start takes them in, where the state of their keys is."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest

from anabranch import Job
from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.store import Store
from anabranch.errors import ConflictError
from anabranch.model.lane import Lane
from anabranch.planning import plan as planning
from anabranch.planning.transition import follow
from anabranch.protocol.commands import ScaleRequest
from anabranch.protocol.deployment import StartRequest
from tests.unit.coordinator import workers
from tests.unit.coordinator.drainer import Drainer, said
from tests.unit.coordinator.helpers import Clock
from tests.unit.coordinator.programs import PROGRAM
from tests.unit.coordinator.workers import JOB
from tests.unit.planning.factory import around, new_id


@pytest.fixture
def coordinator(store: Store) -> Coordinator:
    return Coordinator(store, Clock(), grace=5.0, first=lambda: 0)


def drainers_in(coordinator: Coordinator, seats: int, pid: int = 1) -> list[Drainer]:
    return [Drainer(coordinator, pid=pid + seat, seat=str(seat)) for seat in range(seats)]


def worked(drainers: list[Drainer], turns: int = 6) -> None:
    for _ in range(turns):
        for each in drainers:
            each.turn()


def drained(coordinator: Coordinator, drainers: list[Drainer], changes: ScaleRequest | None = None) -> None:
    worked(drainers)
    if changes is not None:
        coordinator.scale(JOB, changes)
        worked(drainers)
        drainers = drainers[: changes.containers]
    deployment = coordinator.model(JOB).run_id
    coordinator.drain(JOB, said(deployment))
    worked(drainers, 16)
    assert coordinator.status(JOB).state == "drained"


def begun_again(coordinator: Coordinator, partitions: int, seats: int = 1) -> list[Drainer]:
    coordinator.start(workers.start(partitions=partitions, containers=seats))
    drainers = drainers_in(coordinator, seats, 50 * coordinator.model(JOB).run_id)
    worked(drainers, 12)
    assert coordinator.status(JOB).state == "running", coordinator.status(JOB)
    return drainers


def present(coordinator: Coordinator, store: Store) -> list[Lane]:
    deployment = coordinator.model(JOB).run_id
    return follow.heads(each for each in store.lanes(JOB).values() if each.deployment == deployment)


def read_by(lanes: list[Lane]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for lane in lanes:
        found.setdefault(lane.group, []).extend(str(ssp) for ssp in lane.ssps)
    return {group: sorted(ssps) for group, ssps in found.items()}


def seated(lanes: list[Lane], model: Mapping[str, Mapping[str, str]]) -> bool:
    return all(model[lane.stage][task] == lane.seat for lane in lanes for task in lane.tasks)


@pytest.mark.parametrize("seats", [1, 2])
def test_each_group_reads_all_partitions_and_the_job_can_be_changed_again(
    coordinator: Coordinator, store: Store, seats: int
) -> None:
    coordinator.start(workers.start(partitions=2, containers=seats))
    drained(coordinator, drainers_in(coordinator, seats))
    begun_again(coordinator, 4, seats)
    lanes = present(coordinator, store)
    whole = [f"embedded/in/{number}" for number in range(4)]
    assert read_by(lanes) == dict.fromkeys({lane.group for lane in lanes}, whole)
    counted = [lane for lane in lanes if lane.stateful]
    for lane in counted:
        bases = {ssp: base.partition for ssp, base in lane.base.items()}
        assert all(int(ssp.rpartition("/")[2]) % 2 == base for ssp, base in bases.items())
    assert seated(lanes, coordinator.model(JOB).seats_of_tasks())
    begins = {str(each.ssp): each.offset for lane in lanes for each in lane.starting}
    assert begins == {whole[0]: 10, whole[1]: 10}
    assert {str(ssp) for lane in lanes for ssp in lane.fresh} == set(whole[2:]), "they are read from their beginning"
    result = coordinator.scale(JOB, ScaleRequest(factor=2))
    assert {str(ssp.whole) for lane in result.lanes for ssp in lane.ssps} == set(whole)


def test_what_was_expanded_before_the_drain_can_be_changed_after_it(coordinator: Coordinator, store: Store) -> None:
    """Its tasks are those from before it was expanded, which have the state, and the plan of the file has others."""
    coordinator.start(workers.start(partitions=2))
    drained(coordinator, drainers_in(coordinator, 1))
    drained(coordinator, begun_again(coordinator, 4))
    begun_again(coordinator, 4)
    lanes = present(coordinator, store)
    whole = [f"embedded/in/{number}" for number in range(4)]
    assert read_by(lanes) == dict.fromkeys({lane.group for lane in lanes}, whole)
    names = {task.name for stage in coordinator.model(JOB).stages for task in stage.tasks}
    assert names == {"Partition_0", "Partition_1"}
    for wanted in (ScaleRequest(factor=2, dry=True), ScaleRequest(containers=2, dry=True)):
        result = coordinator.scale(JOB, wanted)
        assert {str(ssp.whole) for lane in result.lanes for ssp in lane.ssps} >= set(whole)


def test_tasks_stay_in_the_seats_that_they_had(coordinator: Coordinator, store: Store) -> None:
    """Their lanes do, as the state is there; and what the model says of them is what the next change goes by."""
    coordinator.start(workers.start(partitions=4, containers=4))
    drained(coordinator, drainers_in(coordinator, 4), ScaleRequest(containers=2))
    begun_again(coordinator, 4, seats=2)
    lanes = present(coordinator, store)
    assert seated(lanes, coordinator.model(JOB).seats_of_tasks())
    dry = coordinator.scale(JOB, ScaleRequest(factor=2, dry=True))
    seats = {task: lane.seat for lane in lanes for task in lane.tasks}
    assert {f"{task}": lane.seat for lane in dry.lanes for task in lane.tasks if task in seats} == {
        task: seat for task, seat in seats.items() if any(task in lane.tasks for lane in dry.lanes)
    }


def test_a_count_that_does_not_keep_keys_with_their_state_is_not_taken_in(
    coordinator: Coordinator, store: Store
) -> None:
    coordinator.start(workers.start(partitions=2))
    drained(coordinator, drainers_in(coordinator, 1))
    begun_again(coordinator, 3)
    lanes = present(coordinator, store)
    assert all(len(ssps) == 2 for ssps in read_by(lanes).values())
    assert any("can't adapt" in each.what for each in coordinator.events(JOB))
    assert "2 partitions" in " ".join(coordinator.status(JOB).warnings) or coordinator.status(JOB).warnings


def test_another_grouper_cannot_keep_the_state(coordinator: Coordinator, store: Store) -> None:
    coordinator.start(workers.start(partitions=2))
    drained(coordinator, drainers_in(coordinator, 1))
    made = workers.start(partitions=4)
    plan = planning.make(made.graph, around("cogroup", **{"in": 4}))
    other = msgspec.structs.replace(made, model=plan.model, lanes=planning.lanes_of(plan, 4, new_id))
    with pytest.raises(
        ConflictError, match="the state of 'counted' can't be kept: it contains that of task Partition_0"
    ):
        coordinator.start(other)


def test_state_that_is_reset_begins_with_the_partitions_that_there_are(coordinator: Coordinator, store: Store) -> None:
    coordinator.start(workers.start(partitions=2))
    drained(coordinator, drainers_in(coordinator, 1))
    coordinator.start(msgspec.structs.replace(workers.start(partitions=3), reset_state=True))
    assert all(len(ssps) == 3 for ssps in read_by(present(coordinator, store)).values())


def merging(other: bool, partitions: int, grouper: str = "partition") -> StartRequest:
    """One stage: a running count and, with ``other``, an output that also reads another input."""
    made = Job(JOB)
    rows = made.read("in", key="k binary", schema="n int")
    rows.agg(n="count(*)", name="counted").write("counts")
    if other:
        rows.merge(made.read("other", key="k binary", schema="n int")).write("out")
    plan = planning.make(made.graph, around(grouper, **{"in": partitions, "other": partitions}))
    lanes = planning.lanes_of(plan, 4, new_id)
    return StartRequest(graph=made.graph, model=plan.model, lanes=lanes, fingerprint={}, program=PROGRAM)


@pytest.mark.parametrize("grew_before", [False, True])
def test_state_keeps_its_tasks_if_another_output_and_its_input_are_gone(
    coordinator: Coordinator, store: Store, grew_before: bool
) -> None:
    """The plan of the file has a task for each partition, and half of these have no state."""
    coordinator.start(merging(True, 2))
    drained(coordinator, drainers_in(coordinator, 1))
    if grew_before:
        coordinator.start(merging(True, 4))
        drainers = drainers_in(coordinator, 1, pid=50)
        worked(drainers, 12)
        drained(coordinator, drainers)
    coordinator.start(merging(False, 4))
    worked(drainers_in(coordinator, 1, pid=100), 12)
    assert coordinator.status(JOB).state == "running"
    whole = [f"embedded/in/{number}" for number in range(4)]
    assert read_by(present(coordinator, store)) == {"counted": whole}
    names = {task.name for stage in coordinator.model(JOB).stages for task in stage.tasks}
    assert names == {"Partition_0", "Partition_1"}
    result = coordinator.scale(JOB, ScaleRequest(factor=2))
    assert {str(ssp.whole) for lane in result.lanes for ssp in lane.ssps} == set(whole)


def test_state_is_not_kept_where_a_custom_grouper_would_have_to_be_called_again(coordinator: Coordinator) -> None:
    """Otherwise, the partitions that came would be in the model, and no lane would read them."""
    coordinator.start(merging(True, 2, "mine:group"))
    drained(coordinator, drainers_in(coordinator, 1))
    told = "the state of 'counted' can't be kept: embedded/in/2 was not read, and would be read in task 0"
    with pytest.raises(ConflictError, match=told):
        coordinator.start(merging(False, 4, "mine:group"))
    assert coordinator.start(msgspec.structs.replace(merging(False, 4, "mine:group"), reset_state=True)) == 2


def test_state_is_not_kept_if_an_input_that_comes_would_part_its_keys(coordinator: Coordinator) -> None:
    """Both inputs have as many partitions now, but state was first written when one of them had fewer."""
    coordinator.start(merging(False, 2))
    drained(coordinator, drainers_in(coordinator, 1))
    with pytest.raises(ConflictError, match=r"the state of 'counted' can't be kept: stream embedded/other is new"):
        coordinator.start(merging(True, 4))
    assert coordinator.start(merging(True, 2)) == 2
