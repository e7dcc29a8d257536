"""Divides each base task into virtual tasks, one for each bucket."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from anabranch.grouping.request import Request
from anabranch.model.names import TaskName
from anabranch.model.ssp import SSP
from anabranch.model.task import Task

__all__ = ["cut"]


def cut(request: Request, bases: Iterable[tuple[TaskName, Sequence[SSP]]]) -> tuple[Task, ...]:
    """The tasks of a stage, numbered in order (``index``). ``bases`` are its tasks at factor 1, with their whole SSPs.

    No tasks are made from a base task without SSPs. The numbers that its tasks would have had stay unused.
    """
    stage, broadcast = request.stage, request.broadcast
    tasks: list[Task] = []
    for number, (base, whole) in enumerate(bases):
        parts = zip(*map(request.buckets, whole), strict=True)
        named = zip(base.parts(request.factor), parts, strict=bool(whole))
        for index, (name, ssps) in enumerate(named, number * request.factor):
            tasks.append(Task(name=name, index=index, stage=stage, ssps=ssps, broadcast=broadcast))
    return tuple(tasks)
