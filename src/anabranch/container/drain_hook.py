"""Calls the job's ``on_drain`` function for each task whose lanes in this container have all drained."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from anabranch.api.hooks import ON_DRAIN, DrainedTask
from anabranch.errors import OperatorError
from anabranch.model.lane import Lane
from anabranch.spark.functions import error_text

__all__ = ["DrainHook"]

_CURE = "fix the function, and run the job again: the drain continues, and the function is called again"


class DrainHook:
    """Calls a job's ``on_drain`` function, if there is one. Thread-safe. ``functions`` are the job's functions,
    ``lanes`` returns the lanes in this container, and ``home`` is the job's folder."""

    def __init__(
        self, functions: Mapping[int, Callable[..., Any]], lanes: Callable[[], Iterable[Lane]], home: str
    ) -> None:
        self._function = functions.get(ON_DRAIN)
        self._lanes = lanes
        self._home = home
        self._drained: set[str] = set()
        self._lock = threading.Lock()

    def drained(self, lane: Lane) -> None:
        """Record that a lane has drained. Call ``on_drain``, if there is one, for each of the lane's tasks whose other
        lanes in this container have also drained.

        Raises:
            OperatorError: the function has raised an exception of any kind.
        """
        if self._function is None:
            return
        with self._lock:
            self._drained.add(lane.id)
            others = [each for each in self._lanes() if each.stage == lane.stage and each.id not in self._drained]
            still_run = {name for each in others for name in each.tasks}
            for name in lane.tasks:
                if name not in still_run:
                    self._call(self._function, DrainedTask(job=lane.job, stage=lane.stage, name=name))

    def _call(self, function: Callable[..., Any], task: DrainedTask) -> None:
        try:
            function(task)
        except BaseException as error:  # SystemExit as well, which would otherwise end the thread without a report
            raise OperatorError(
                f"on_drain raised {error_text.described(error, self._home)}, on task {task.name} of stage {task.stage}",
                _CURE,
            ) from error
