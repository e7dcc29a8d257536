"""Limits how many queries start at the same time, because a query starts a Python process for each of its sources.

Spark gives a source's Python process ten seconds to connect, and this limit can't be configured. On a cluster, each
process must first import its modules. If many processes import modules at the same time on few cores, the imports take
longer than ten seconds, and the queries fail.
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
"""How many seconds to wait for a query's sources. After this time, each source has either connected or failed."""
_LOOK_EVERY = 0.02
_BEFORE = frozenset({"Initializing StreamExecution", "Initializing sources"})
"""Spark's status messages for a query whose sources haven't started yet."""


class Query(Protocol):
    """The part of a starting query's interface that :class:`Starts` uses."""

    @property
    def isActive(self) -> bool: ...

    @property
    def status(self) -> dict[str, object]: ...


class Starts:
    """Limits the number of queries that start at the same time to ``most``."""

    def __init__(
        self, most: int, clock: Callable[[], float] = monotonic, pause: Callable[[float], None] = sleep
    ) -> None:
        self._places = threading.Semaphore(most)
        self._clock = clock
        self._pause = pause

    @contextmanager
    def place(self) -> Iterator[Callable[[Query], None]]:
        """A context in which to start one query. Entering the context waits until the query may be started.
        Leaving the context lets the next query start. Inside ``with``, start the query, and pass it to the function
        that the context provides. The function waits, for a limited time, until the query's sources have started or the
        query has ended.
        """
        with self._places:
            yield self._wait

    def _wait(self, query: Query) -> None:
        end = self._clock() + _PATIENCE
        while query.isActive and query.status["message"] in _BEFORE and self._clock() < end:
            self._pause(_LOOK_EVERY)


shared = Starts(max(2, os.cpu_count() or 2))
