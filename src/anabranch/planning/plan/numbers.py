"""Determines the bucket of each virtual task, and the number of the task (at factor 1) to which the virtual task
belongs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from anabranch.model.job_model import StageModel
from anabranch.model.ssp import SSP, wholes
from anabranch.model.task import Task

__all__ = ["incomplete", "numbers_of", "task_numbers", "virtual_of"]


def task_numbers(stage: StageModel, factor: int) -> dict[SSP, int]:
    """For each partition, as a whole SSP, the number of the task (at factor 1) that reads it."""
    return {ssp.whole: task.index // factor for task in stage.tasks for ssp in task.ssps}


def numbers_of(tasks: Iterable[Task], ssps: Iterable[SSP], factor: int) -> dict[str, int]:
    """For each partition of ``ssps``, as a whole SSP in text form, the number of the task (at factor 1) that reads the
    partition. ``factor`` is the factor of ``tasks``.
    """
    found = {(ssp.system, ssp.stream, ssp.partition): task.index // factor for task in tasks for ssp in task.ssps}
    read = dict.fromkeys(wholes(ssps))
    return {str(whole): found[whole.system, whole.stream, whole.partition] for whole in read}


def virtual_of(tasks: Iterable[Task], factor: int) -> dict[int, tuple[int, ...]]:
    """The buckets of the virtual tasks ``tasks``, grouped by task at factor 1. The keys are the numbers of these tasks
    at factor 1.
    """
    found: dict[int, list[int]] = {}
    for task in sorted(tasks, key=lambda task: task.index):
        found.setdefault(task.index // factor, []).append(task.index % factor)
    return {number: tuple(buckets) for number, buckets in found.items()}


def incomplete(virtual: Mapping[int, Collection[int]], factor: int) -> dict[str, tuple[int, ...]]:
    """The entries of ``virtual``, a result of :func:`virtual_of`, that contain only some of a task's buckets. The keys
    are the tasks' numbers as text.
    """
    return {str(number): tuple(sorted(its)) for number, its in virtual.items() if len(its) < factor}
