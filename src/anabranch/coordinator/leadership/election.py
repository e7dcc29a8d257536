"""Which coordinator leads: the one with a lease on a row of the store, which each process measures on its own clock."""

from __future__ import annotations

import math
from collections.abc import Callable

from anabranch.coordinator.store import LeaderRecord, Store
from anabranch.errors import ConflictError, NotLeadingError, StoreUnavailableError

__all__ = ["Election"]


class Election:
    """A candidate. No two candidates lead at once as long as their clocks run at the same rate, even if a process is
    paused for a long time.

    A leader counts its lease from before it sent a heartbeat. Another candidate counts from after it first saw that
    heartbeat, waits for longer than the lease, and claims the row only if that heartbeat is still the last one.

    Args:
        store: from now on it writes only while this candidate leads. Nothing else may claim the lead in it, or resign.
        holder: the URL of this coordinator.
        clock: seconds on a clock that keeps running while the machine sleeps.
        lease: how long a heartbeat counts, in seconds.
        grace: how much longer other candidates wait.
    """

    def __init__(
        self, store: Store, holder: str, clock: Callable[[], float], lease: float = 10.0, grace: float = 2.0
    ) -> None:
        store.stand_by()
        self._store = store
        self._holder = holder
        self._clock = clock
        self._lease = lease
        self._patience = lease + grace
        self._claimed = False
        self._ends = -math.inf
        self._seen: LeaderRecord | None = None
        self._seen_at = -math.inf

    @property
    def leads(self) -> bool:
        """Whether this candidate leads now. Thread-safe."""
        return self._clock() < self._ends

    @property
    def leads_until(self) -> float:
        """When the candidate's lease ends, on its own clock; in the past, if it doesn't lead."""
        return self._ends

    def step(self) -> bool:
        """Renew the lease, or claim a free one. Must be called several times a second, by one thread.

        An unavailable store counts as a missed heartbeat.

        Returns:
            whether this candidate leads.
        """
        try:
            if self._claimed:
                self._renew()
            if not self._claimed:
                self._look()
        except (StoreUnavailableError, ConflictError):
            pass  # the lease says how long that may go on
        return self.leads

    def resign(self) -> None:
        """Stop leading, so that another candidate may lead at once. Does nothing if this one doesn't lead. Must be
        called by the thread of ``step``.

        Raises:
            StoreUnavailableError: the resignation can't be stored, so that others wait for the lease to end.
        """
        claimed, self._claimed, self._ends = self._claimed, False, -math.inf
        if claimed:
            try:
                self._store.resign()
            except NotLeadingError:
                return

    def _renew(self) -> None:
        before = self._clock()
        try:
            self._store.renew()
        except NotLeadingError:
            self._claimed, self._ends = False, -math.inf
        else:
            self._ends = before + self._lease

    def _look(self) -> None:
        found = self._store.leader()
        if found is not None and found != self._seen:
            self._seen, self._seen_at = found, self._clock()
        free = found is None or found.resigned or self._clock() - self._seen_at > self._patience
        if not free:
            return
        before = self._clock()
        if self._store.claim(found, self._holder):
            self._claimed, self._ends = True, before + self._lease
