"""Calls the job's ``on_drain`` function for each task whose lanes in this container have all drained."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from anabranch.api.hooks import ON_DRAIN, DrainedTask
from anabranch.model.lane import Lane

__all__ = ["DrainHook"]


class DrainHook:
    """Calls a job's ``on_drain`` function, if there is one. Thread-safe. ``functions`` are the job's functions, and
    ``lanes`` returns the lanes in this container."""

    def __init__(self, functions: Mapping[int, Callable[..., Any]], lanes: Callable[[], Iterable[Lane]]) -> None:
        self._function = functions.get(ON_DRAIN)
        self._lanes = lanes
        self._drained: set[str] = set()
        self._lock = threading.Lock()

    def drained(self, lane: Lane) -> None:
        """Record that a lane has drained. Call ``on_drain``, if there is one, for each of the lane's tasks whose other
        lanes in this container have also drained. Exceptions that ``on_drain`` raises propagate to the caller."""
        if self._function is None:
            return
        with self._lock:
            self._drained.add(lane.id)
            others = [each for each in self._lanes() if each.stage == lane.stage and each.id not in self._drained]
            still_run = {name for each in others for name in each.tasks}
            for name in lane.tasks:
                if name not in still_run:
                    self._function(DrainedTask(job=lane.job, stage=lane.stage, name=name))
