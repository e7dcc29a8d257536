"""Divides each base task into virtual tasks, one for each bucket."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from anabranch.grouping.request import Request
from anabranch.model.names import TaskName
from anabranch.model.ssp import SSP
from anabranch.model.task import Task

__all__ = ["cut"]


def cut(request: Request, bases: Iterable[tuple[TaskName, Sequence[SSP]]]) -> tuple[Task, ...]:
    """The tasks of a stage, in the order of their numbers (``index``).

    With factor f, each base task is divided into f virtual tasks, one for each bucket. The base task at place n of
    ``bases`` gets the virtual tasks with the numbers from n * f to n * f + f - 1. If a base task has no SSPs, it gets
    no virtual tasks, and these numbers stay unused.

    Args:
        bases: the stage's tasks at factor 1, each with its name and its whole SSPs.
    """
    stage, broadcast = request.stage, request.broadcast
    tasks: list[Task] = []
    for number, (base, whole) in enumerate(bases):
        parts = zip(*map(request.buckets, whole), strict=True)
        named = zip(base.parts(request.factor), parts, strict=bool(whole))
        for index, (name, ssps) in enumerate(named, number * request.factor):
            tasks.append(Task(name=name, index=index, stage=stage, ssps=ssps, broadcast=broadcast))
    return tuple(tasks)
