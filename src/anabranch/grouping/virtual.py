"""Virtual tasks: each base task cut into as many tasks as the factor says, one a key bucket."""

from __future__ import annotations

from collections.abc import Iterable

from anabranch.grouping.request import Request
from anabranch.model.names import TaskName
from anabranch.model.ssp import SSP
from anabranch.model.task import Task

__all__ = ["cut"]


def cut(request: Request, bases: Iterable[tuple[TaskName, Iterable[SSP]]]) -> tuple[Task, ...]:
    """The tasks of a stage from its base tasks with their whole SSPs; ``index`` numbers them in order."""
    stage, broadcast = request.stage, request.broadcast
    tasks: list[Task] = []
    for base, whole in bases:
        parts = zip(*map(request.buckets, whole), strict=True)
        for index, (name, ssps) in enumerate(zip(base.parts(request.factor), parts, strict=True), len(tasks)):
            tasks.append(Task(name=name, index=index, stage=stage, ssps=ssps, broadcast=broadcast))
    return tuple(tasks)
