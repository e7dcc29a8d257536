"""The grouper ``ssp`` (*max* in Samza's SAMZA-71): one task per SSP. The tasks are numbered in the order of the inputs,
and within an input in the order of the partitions."""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.errors import ConflictError
from anabranch.grouping import virtual
from anabranch.grouping.request import Request
from anabranch.model.names import TaskKind, TaskName
from anabranch.model.task import Task


def group(request: Request) -> tuple[Task, ...]:
    """The tasks of a stage. At factor 1, there is one task for each partition of each stream that isn't broadcast."""
    return virtual.cut(
        request,
        (
            (
                TaskName(kind=TaskKind.SSP, number=whole.partition, system=whole.system, stream=whole.stream),
                [whole],
            )
            for stream in request.grouped
            for whole in stream.ssps
        ),
    )


def check_order(stage: str, previous: Sequence[str], inputs: Sequence[str]) -> None:
    """Check that a stage's old inputs are in the same order as before, and that new inputs come last. This is necessary
    because tasks are numbered in the order of the inputs.

    Args:
        previous: the inputs in the previous generation. Those that are no longer read are ignored.
        inputs: the inputs in the next generation.

    Raises:
        ConflictError: the order has changed, or a new input comes before an old one. The message names the first input
            at which the order differs.
    """
    kept = [name for name in previous if name in inputs]
    for was, now in zip(kept, inputs, strict=False):
        if was != now:
            raise ConflictError(
                f"stage {stage!r} is grouped by SSP and reads {now} where it read {was} before",
                f"keep the inputs in the order {', '.join(kept)} and append new ones at the end",
            )
