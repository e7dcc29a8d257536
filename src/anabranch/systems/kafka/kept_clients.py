"""Keeps a process's Kafka clients for the next batches, and discards clients that are no longer used."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

__all__ = ["UNUSED", "KeptClients"]

UNUSED = 120.0
"""A client that hasn't been used for this number of seconds is discarded. The lane that used the client has probably
ended, or runs elsewhere. Each client has threads and connections. If unused clients were kept, the number of threads
and connections would grow with each change to the job.
"""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class KeptClients(Generic[K, V]):
    """Keeps clients for their next use, each under a key. Each call to :meth:`take`, :meth:`put` or :meth:`shared` also
    discards all clients that haven't been used for :data:`UNUSED` seconds. Thread-safe.

    Args:
        discard: a function that discards a client. It is called without a lock, because a client may take a while to
            end.
        clock: returns a time in seconds that never goes back.
    """

    def __init__(self, discard: Callable[[V], object], clock: Callable[[], float] = time.monotonic) -> None:
        self._discard = discard
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: dict[K, tuple[float, V]] = {}

    def take(self, key: K) -> V | None:
        """Remove a client from this object, and return the client. If no client is kept under this key, return None."""
        self._discard_unused()
        with self._lock:
            found = self._kept.pop(key, None)
        return None if found is None else found[1]

    def put(self, key: K, client: V) -> None:
        """Keep a client. A client that was kept under the same key is discarded."""
        with self._lock:
            before = self._kept.pop(key, None)
            self._kept[key] = self._clock(), client
        if before is not None:
            self._discard(before[1])
        self._discard_unused()

    def shared(self, key: K, make: Callable[[], V]) -> V:
        """Return the client under a key. If there is no such client, create one. The client stays in this object,
        because several threads may use it at once."""
        self._discard_unused()
        found = self._used(key)
        if found is not None:
            return found
        made = make()
        with self._lock:
            its = self._kept.setdefault(key, (self._clock(), made))[1]
        if its is not made:
            self._discard(made)
        return its

    def clear(self) -> None:
        """Discard all clients."""
        with self._lock:
            several, self._kept = [client for _, client in self._kept.values()], {}
        for each in several:
            self._discard(each)

    def _used(self, key: K) -> V | None:
        with self._lock:
            if key not in self._kept:
                return None
            client = self._kept[key][1]
            self._kept[key] = self._clock(), client
            return client

    def _discard_unused(self) -> None:
        with self._lock:
            last = self._clock() - UNUSED
            unused = [key for key, (used, _) in self._kept.items() if used < last]
            several = [self._kept.pop(key)[1] for key in unused]
        for each in several:
            self._discard(each)
