"""Virtual tasks: each base task cut into as many tasks as the factor says, one a key bucket."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from anabranch.grouping.request import Request
from anabranch.model.names import TaskName
from anabranch.model.ssp import SSP
from anabranch.model.task import Task

__all__ = ["cut"]


def cut(request: Request, bases: Iterable[tuple[TaskName, Iterable[SSP]]]) -> tuple[Task, ...]:
    """The tasks of a stage from its base tasks with their whole SSPs; ``index`` numbers them in order."""
    virtual = (
        (_named(base, bucket, request.factor), ssps)
        for base, whole in bases
        for bucket, ssps in enumerate(zip(*(request.buckets(ssp) for ssp in whole), strict=True))
    )
    return tuple(
        Task(name=str(name), index=index, stage=request.stage, ssps=ssps, broadcast=request.broadcast)
        for index, (name, ssps) in enumerate(virtual)
    )


def _named(base: TaskName, bucket: int, factor: int) -> TaskName:
    return base if factor == 1 else dataclasses.replace(base, bucket=bucket, factor=factor)
