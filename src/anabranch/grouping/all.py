"""The grouper ``all``: one task per container, each with every SSP. So n containers process each record n times."""

from __future__ import annotations

from anabranch.errors import ConfigError
from anabranch.grouping.request import Request
from anabranch.model.names import TaskKind, TaskName
from anabranch.model.task import Task


def group(request: Request) -> tuple[Task, ...]:
    """As many tasks as ``request.containers``, each with all SSPs, as in Samza's AllSspToSingleTask.

    Raises:
        ConfigError: the factor is above 1, or there is a broadcast input.
    """
    if request.factor > 1:
        raise ConfigError(
            f'grouper "all" can\'t have factor {request.factor} (stage {request.stage!r})',
            'its tasks have no buckets: set factor = 1, or another grouper, such as "partition"',
        )
    if request.broadcast:
        ssp = request.broadcast[0]
        raise ConfigError(
            f'stage {request.stage!r} broadcasts {ssp.system}/{ssp.stream}, and grouper "all" can\'t',
            "read it without broadcast: every task has every SSP already",
        )
    return tuple(
        Task(
            name=str(TaskName(kind=TaskKind.ORDINAL, number=number)),
            index=number,
            stage=request.stage,
            ssps=tuple(ssp for stream in request.inputs for ssp in stream.ssps),
        )
        for number in range(request.containers)
    )
