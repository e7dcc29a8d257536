"""The locks of jobs that a coordinator serves from an SQLite file. ``anabranch run`` refuses a job while a coordinator
holds the job's lock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from anabranch.coordinator.leadership import endpoint
from anabranch.coordinator.store import address

__all__ = ["JobLocks"]


class JobLocks:
    """The locks that a coordinator holds. Thread-safe.

    For a store on a server or in memory, which ``anabranch run`` can't use, no locks are taken.
    """

    def __init__(self, store_url: str, url: str) -> None:
        self._store_url = store_url
        self._url = url
        self._locks: dict[str, endpoint.RunLock] = {}
        self._guard = threading.RLock()

    @contextmanager
    def taken(self, job: str) -> Iterator[None]:
        """Take a job's lock. If the body of ``with`` succeeds, the lock stays held; if the body fails, the lock is
        released, unless it was held before the call."""
        with self._guard:
            taken = self.take(job)
            try:
                yield
            except BaseException:
                if taken:
                    self.give(job)
                raise

    @contextmanager
    def reserved(self) -> Iterator[None]:
        """Inside ``with``, no other thread takes or releases locks through this object."""
        with self._guard:
            yield

    def take(self, job: str) -> bool:
        """Take a job's lock. Returns whether this call took the lock; False if this object already holds it, or if no
        locks are taken for the store.

        Raises:
            ConflictError: another process holds the lock.
            ConfigError: the lock, or the note with the coordinator's URL, can't be written. The lock then isn't held.
        """
        if address.is_on_server(self._store_url) or address.path_of(self._store_url) is None:
            return False
        with self._guard:
            if job in self._locks:
                return False
            lock = endpoint.RunLock(self._store_url, job)
            lock.acquire()
            try:
                endpoint.write(self._store_url, job, self._url)
            except BaseException:
                lock.release()
                raise
            self._locks[job] = lock
            return True

    def give(self, job: str) -> None:
        """If a job's lock is held, release it, and remove the note next to it."""
        with self._guard:
            if job in self._locks:
                try:
                    endpoint.remove(self._store_url, job)
                finally:
                    self._locks.pop(job).release()

    def give_those(self, released: Callable[[str], bool]) -> None:
        """Release the locks of the jobs for which ``released`` returns True. If a note can't be removed, the other
        locks are released nevertheless, and the error is raised afterwards."""
        with self._guard, ExitStack() as gives:
            for job in [job for job in self._locks if released(job)]:
                gives.callback(self.give, job)
