"""Checks the tasks from a user's own grouper."""

from __future__ import annotations

from anabranch.errors import GraphError
from anabranch.grouping.request import Request
from anabranch.model.ssp import SSP
from anabranch.model.task import Task

__all__ = ["check"]

_CURE = "correct the grouper's function: every bucket of every SSP belongs to exactly one task"


def check(request: Request, tasks: tuple[Task, ...]) -> tuple[Task, ...]:
    """Return ``tasks`` unchanged, if a user's grouper formed them correctly:

    - Each bucket of each SSP that isn't broadcast is in exactly one task.
    - Each task has the request's stage, exactly the request's broadcast SSPs, and no SSPs that the request lacks.
    - Each task has a unique name, and its ``index`` is its position in ``tasks``, counted from 0.

    Raises:
        GraphError: one of these conditions isn't met; the message names the SSP or the task at fault.
    """
    owner: dict[SSP, str] = {}
    wanted = {part for stream in request.grouped for ssp in stream.ssps for part in request.buckets(ssp)}
    for task in tasks:
        for ssp in task.ssps:
            if ssp in owner:
                raise GraphError(f"{ssp} is in two tasks, {owner[ssp]!r} and {task.name!r}", _CURE)
            if ssp not in wanted:
                raise GraphError(
                    f"task {task.name!r} holds {ssp}, which stage {request.stage!r} doesn't have "
                    f"at factor {request.factor}",
                    _CURE,
                )
            owner[ssp] = task.name
    if missing := wanted - owner.keys():
        raise GraphError(f"{_first(missing)} is in no task of stage {request.stage!r}", _CURE)
    _check_each(request, tasks)
    return tasks


def _check_each(request: Request, tasks: tuple[Task, ...]) -> None:
    names: set[str] = set()
    for number, task in enumerate(tasks):
        if not task.name or task.name in names:
            raise GraphError(
                f"task {number} of stage {request.stage!r} has no name, or another's: {task.name!r}",
                "give each task a name of its own",
            )
        names.add(task.name)
        if (task.index, task.stage) != (number, request.stage):
            raise GraphError(
                f"task {task.name!r} has index {task.index} of stage {task.stage!r}, "
                f"and is number {number} of {request.stage!r}",
                "number the tasks in order, from 0, and give them the stage of the request",
            )
        if differing := set(request.broadcast) ^ set(task.broadcast):
            ssp = _first(differing)
            raise GraphError(
                f"{ssp} is {'broadcast, but not' if ssp in request.broadcast else 'not broadcast, but is'} "
                f"in the broadcast SSPs of task {task.name!r}",
                "give every task the request's broadcast SSPs, whole",
            )


def _first(ssps: set[SSP]) -> SSP:
    return min(ssps, key=lambda ssp: ssp.order)
