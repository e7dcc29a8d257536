"""The task names that records of a lane tell; what they are for a row, the integration tests see."""

from __future__ import annotations

import pytest

from anabranch.errors import ConfigError
from anabranch.spark.values import task_header
from tests.unit.coordinator.helpers import lane

SSP = "SystemStreamPartition_kafka/in/"


@pytest.mark.parametrize(
    ("tasks", "bases", "by_number", "factor"),
    [
        (["Partition_1", "Partition_3"], (1, 3), {1: "Partition_1", 3: "Partition_3"}, 1),
        ([f"{SSP}0", f"{SSP}1"], (4, 5), {4: f"{SSP}0", 5: f"{SSP}1"}, 1),
        (["mine", "yours"], (0, 1), {0: "mine", 1: "yours"}, 1),
        (["Partition_2-1-4"], (2,), {2: "Partition_2-1-4"}, 1),
        ([f"Group_{n}-{b}-2" for n in (0, 1) for b in (0, 1)], (0, 1), {0: "Group_0", 1: "Group_1"}, 2),
        (["Partition_0-1-8", "Partition_0-3-8", "Partition_1-3-8"], (0, 1), {0: "Partition_0", 1: "Partition_1"}, 8),
    ],
)
def test_a_number_or_a_number_and_a_bucket_tell_the_task(
    tasks: list[str], bases: tuple[int, ...], by_number: dict[int, str], factor: int
) -> None:
    found = task_header.of_lane(lane("a", tasks=tuple(tasks), bases=bases))
    assert (found.by_number, found.factor) == (by_number, factor)


def test_virtual_tasks_with_names_of_ones_own_cannot_be_told() -> None:
    with pytest.raises(ConfigError, match="isn't known with a custom grouper"):
        task_header.of_lane(lane("a", tasks=("x", "y", "z"), bases=(0, 1)))
