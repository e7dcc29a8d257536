"""Lets only a few queries start at the same time, because each starts a Python process for each of its sources.

Spark gives such a process ten seconds to connect, which is no setting. Where it imports by itself (on a cluster, where
nothing can be run from the folder of temporary files), so many of them need more than that on a few cores.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic, sleep
from typing import Protocol

__all__ = ["Query", "Starts", "shared"]

_PATIENCE = 12.0
"""Seconds: by then a source has connected, or has failed."""
_LOOK_EVERY = 0.02
_BEFORE = frozenset({"Initializing StreamExecution", "Initializing sources"})
"""What Spark says of a query whose sources haven't started."""


class Query(Protocol):
    """What is asked of a query that starts."""

    @property
    def isActive(self) -> bool: ...

    @property
    def status(self) -> dict[str, object]: ...


class Starts:
    """Places for queries that start, by default as many as there are cores."""

    def __init__(
        self, most: int, clock: Callable[[], float] = monotonic, pause: Callable[[float], None] = sleep
    ) -> None:
        self._places = threading.Semaphore(most)
        self._clock = clock
        self._pause = pause

    @contextmanager
    def place(self) -> Iterator[Callable[[Query], None]]:
        """A place, once there is one; gives what waits until the sources of a query have started, or it has ended, but
        not for ever."""
        with self._places:
            yield self._wait

    def _wait(self, query: Query) -> None:
        end = self._clock() + _PATIENCE
        while query.isActive and query.status["message"] in _BEFORE and self._clock() < end:
            self._pause(_LOOK_EVERY)


shared = Starts(max(2, os.cpu_count() or 2))
