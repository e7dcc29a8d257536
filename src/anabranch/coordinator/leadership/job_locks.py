"""The locks of jobs that a coordinator serves on a store in SQLite: ``anabranch run`` doesn't serve them meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from anabranch.coordinator import endpoint
from anabranch.coordinator.store import address

__all__ = ["JobLocks"]


class JobLocks:
    """Thread-safe. A store on a server has none: there only one coordinator leads, and nobody runs jobs beside it.

    Args:
        url: where others reach this coordinator; it is noted beside a lock.
    """

    def __init__(self, store_url: str, url: str) -> None:
        self._store_url = store_url
        self._url = url
        self._locks: dict[str, endpoint.RunLock] = {}
        self._guard = threading.RLock()

    @contextmanager
    def taken(self, job: str) -> Iterator[None]:
        """Have a job's lock, and keep it if all goes well inside."""
        with self._guard:
            taken = self.take(job)
            try:
                yield
            except BaseException:
                if taken:
                    self.give(job)
                raise

    def take(self, job: str) -> bool:
        """Take a job's lock; gives whether it was free. ConflictError if another process has it."""
        if address.is_on_server(self._store_url) or address.path_of(self._store_url) is None:
            return False
        with self._guard:
            if job in self._locks:
                return False
            lock = endpoint.RunLock(self._store_url, job)
            lock.acquire()
            self._locks[job] = lock
            endpoint.write(self._store_url, job, self._url)
            return True

    def give(self, job: str) -> None:
        """Give a job's lock back; nothing happens if it isn't held."""
        with self._guard:
            if job in self._locks:
                endpoint.remove(self._store_url, job)
                self._locks.pop(job).release()

    def give_those(self, released: Callable[[str], bool]) -> None:
        """Release the locks of those jobs for which ``released`` says that they are no longer served."""
        with self._guard:
            for job in [job for job in self._locks if released(job)]:
                self.give(job)
