"""Which buckets change seats between two models, also where the factor is another one."""

from __future__ import annotations

import msgspec
import pytest

from anabranch.model.job_model import ContainerModel, JobModel, StageModel
from anabranch.model.moves import StageMoves, compared
from tests.unit.coordinator.workers import start


def model(factor: int, *seats: tuple[str, ...]) -> JobModel:
    """Of one stage; ``seats``: the tasks of each."""
    stage = StageModel(stage="0", key=(), stateful=False, grouper="partition", inputs=(), tasks=())
    containers = tuple(ContainerModel(seat=str(at), tasks={"0": tasks}) for at, tasks in enumerate(seats))
    return JobModel(job="j", run_id=1, generation=1, factor=factor, stages=(stage,), containers=containers)


def only(before: JobModel, after: JobModel) -> StageMoves:
    (stage,) = compared(before, after)
    return stage


def named(stage: StageMoves) -> set[tuple[str, str, str, int]]:
    names = dict(enumerate(stage.seats)) | {-1: ""}
    return {(stage.partitions[at], names[source], names[target], count) for at, source, target, count in stage.moves}


WHOLE = model(1, ("Partition_0", "Partition_1"), ())
SPLIT = model(4, ("Partition_0-0-4", "Partition_0-2-4", "Partition_1-0-4", "Partition_1-1-4"),
              ("Partition_0-1-4", "Partition_0-3-4", "Partition_1-2-4", "Partition_1-3-4"))  # fmt: skip


def test_what_stays_is_no_move() -> None:
    stage = only(SPLIT, SPLIT)
    assert stage.moves == ()
    assert sum(count for _, _, count in stage.cells) == 2 * stage.buckets == 8


@pytest.mark.parametrize(
    ("before", "after", "moves"),
    [
        (WHOLE, SPLIT, {("Partition_0", "0", "1", 2), ("Partition_1", "0", "1", 2)}),
        (SPLIT, WHOLE, {("Partition_0", "1", "0", 2), ("Partition_1", "1", "0", 2)}),
        # bucket 1 of 2 is 1 and 3 of 4: so in the first partition nothing moves
        (
            model(2, ("Partition_0-0-2", "Partition_1-0-2"), ("Partition_0-1-2", "Partition_1-1-2")),
            SPLIT,
            {("Partition_1", "0", "1", 1), ("Partition_1", "1", "0", 1)},
        ),
        (WHOLE, model(1, ("Partition_0",), ("Partition_1", "Partition_2")),
         {("Partition_1", "0", "1", 1), ("Partition_2", "", "1", 1)}),
        (WHOLE, model(1, ("Partition_0",)), {("Partition_1", "0", "", 1)}),
        (model(1, ("by-hand",)), model(1, (), ("by-hand",)), {("by-hand", "0", "1", 1)}),
    ],
)  # fmt: skip
def test_each_bucket_that_moves_is_counted(
    before: JobModel, after: JobModel, moves: set[tuple[str, str, str, int]]
) -> None:
    assert named(only(before, after)) == moves


def test_seats_and_racks_are_those_of_both() -> None:
    there = msgspec.structs.replace(WHOLE, containers=(ContainerModel(seat="9", tasks={"0": ()}, rack="eu-1a"),))
    stage = only(WHOLE, there)
    assert (stage.seats, stage.racks) == (("9", "0", "1"), ("eu-1a", None, None))


def test_what_moves_agrees_with_the_seats_of_a_planned_job() -> None:
    before, after = start(factor=4, containers=2, partitions=5).model, start(factor=4, containers=3, partitions=5).model
    was, now = before.seats_of_tasks(), after.seats_of_tasks()
    for stage in compared(before, after):
        tasks = now[stage.stage]
        moved = sum(was[stage.stage][task] != seat for task, seat in tasks.items())
        assert sum(count for *_, count in stage.moves) == moved
