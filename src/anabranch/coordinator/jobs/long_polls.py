"""Keeps track of the clients that wait for new orders for a container."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

__all__ = ["LongPolls"]


@dataclass(frozen=True, eq=False)
class _Poll:
    container: str
    seen: int
    wake: Callable[[], object]


class LongPolls:
    """The clients that wait for new orders, and the functions that wake these clients. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: set[_Poll] = set()

    def __len__(self) -> int:
        return len(self._waiting)

    @contextmanager
    def waiting(self, container: str, seen: int, wake: Callable[[], object]) -> Iterator[None]:
        """A context in which the function ``wake`` is called when the container may have orders that are newer than the
        revision ``seen``. Any thread can call the function, even several times. The function must not block.
        """
        poll = _Poll(container, seen, wake)
        with self._lock:
            self._waiting.add(poll)
        try:
            yield
        finally:
            with self._lock:
                self._waiting.discard(poll)

    def wake(self, has_news: Callable[[str, int], bool]) -> None:
        """Wake the clients for which ``has_news`` returns True. The function gets the container for whose
        orders a client waits, and the revision that the client has seen."""
        with self._lock:
            waiting = list(self._waiting)
        for poll in waiting:
            if has_news(poll.container, poll.seen):
                poll.wake()
