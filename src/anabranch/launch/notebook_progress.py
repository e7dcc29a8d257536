"""Shows a progress bar in a notebook while Spark computes the result of a cell. Outside notebooks, nothing is shown."""

from __future__ import annotations

import importlib
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

__all__ = ["shown"]

_EVERY = 0.3
_OF_GROUPS = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")
"""The local properties that ``setJobGroup`` sets."""


@contextmanager
def shown(spark: SparkSession) -> Iterator[None]:
    """In a notebook, show how many of the Spark tasks started by this thread inside ``with`` have finished."""
    if not _is_notebook():
        yield
        return
    ipython: Any = importlib.import_module("IPython.display")
    context, group, over = spark.sparkContext, f"anabranch-{uuid.uuid4().hex[:8]}", threading.Event()
    begin = time.monotonic()
    bar = ipython.display(ipython.HTML(_text(0, 0, 0.0)), display_id=True)

    def update() -> None:
        done, tasks = _tasks(context, group)
        bar.update(ipython.HTML(_text(done, tasks, time.monotonic() - begin)))

    def run() -> None:
        while not over.wait(_EVERY):
            update()

    before: dict[str, Any] = {name: context.getLocalProperty(name) for name in _OF_GROUPS}
    context.setJobGroup(group, "anabranch: a cell of a notebook")
    thread = threading.Thread(target=run, name="notebook-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        for name, value in before.items():
            context.setLocalProperty(name, value)
        update()


def _is_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    module: Any = sys.modules.get("IPython")
    shell = None if module is None else module.get_ipython()
    return type(shell).__name__ == "ZMQInteractiveShell"


def _tasks(context: Any, group: str) -> tuple[int, int]:
    """How many Spark tasks of a job group have finished, and how many Spark tasks of the group are known so far."""
    tracker = context.statusTracker()
    done = tasks = 0
    for job in tracker.getJobIdsForGroup(group):
        stages = (tracker.getStageInfo(stage) for stage in getattr(tracker.getJobInfo(job), "stageIds", ()))
        for stage in filter(None, stages):
            done += stage.numCompletedTasks
            tasks += stage.numTasks
    return done, tasks


def _text(done: int, tasks: int, seconds: float) -> str:
    return f'<progress value="{done}" max="{max(tasks, 1)}"></progress> {done} of {tasks} tasks, {seconds:.1f} s'
