"""Virtual tasks: each base task divided into as many tasks as the factor says, one for each key bucket."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from anabranch.grouping.request import Request
from anabranch.model.names import TaskName
from anabranch.model.ssp import SSP
from anabranch.model.task import Task

__all__ = ["cut"]


def cut(request: Request, bases: Iterable[tuple[TaskName, Sequence[SSP]]]) -> tuple[Task, ...]:
    """The tasks of a stage, from its base tasks with their whole SSPs; ``index`` numbers them in order.

    A base task without SSPs becomes no task, but its numbers stay unused.
    """
    stage, broadcast = request.stage, request.broadcast
    tasks: list[Task] = []
    for number, (base, whole) in enumerate(bases):
        parts = zip(*map(request.buckets, whole), strict=True)
        named = zip(base.parts(request.factor), parts, strict=bool(whole))
        for index, (name, ssps) in enumerate(named, number * request.factor):
            tasks.append(Task(name=name, index=index, stage=stage, ssps=ssps, broadcast=broadcast))
    return tuple(tasks)
