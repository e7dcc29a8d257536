"""The clients that wait for news of a container."""

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
    """Thread-safe. A poll costs only memory: the waiting client provides the function that wakes it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: set[_Poll] = set()

    def __len__(self) -> int:
        return len(self._waiting)

    @contextmanager
    def waiting(self, container: str, seen: int, wake: Callable[[], object]) -> Iterator[None]:
        """Inside ``with``, ``wake`` is called when there is news for a container that has seen that revision. It may be
        called more than once, by any thread, and must not block."""
        poll = _Poll(container, seen, wake)
        with self._lock:
            self._waiting.add(poll)
        try:
            yield
        finally:
            with self._lock:
                self._waiting.discard(poll)

    def wake(self, has_news: Callable[[str, int], bool]) -> None:
        """Wake the clients for which ``has_news``, called with the container and the revision that it has seen, is
        true.
        """
        with self._lock:
            waiting = list(self._waiting)
        for poll in waiting:
            if has_news(poll.container, poll.seen):
                poll.wake()
