"""Elects the coordinator that leads: the one that holds the lease on a row of the store. Every process measures the
lease on its own clock.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from anabranch import logs
from anabranch.coordinator.store import LeaderRecord, Store
from anabranch.errors import ConflictError, NotLeadingError, StoreUnavailableError

__all__ = ["Election"]

log = logs.get_logger()


class Election:
    """A candidate for the lead. Two candidates never lead at the same time, even if a process is paused for long. This
    requires that their clocks run at about the same rate, and that no newer anabranch migrates the store meanwhile.

    A leader measures its lease from the moment before it stores a claim or a renewal. Every other candidate measures
    from the moment after it first saw that claim or renewal. If no further renewal follows for longer than the lease
    and ``grace`` together, the candidate claims the lead. If nobody has ever led, or if the leader has resigned, a
    candidate claims the lead at once.

    Args:
        store: the store. From now on, writes through this object fail unless this candidate was the last to claim the
            lead. Other code must not claim the lead, or resign, through this object.
        holder: this candidate's URL.
        clock: returns the seconds of a clock that keeps running while the machine sleeps.
        lease: how many seconds the lease lasts after it was claimed or renewed.
        grace: how many seconds this candidate waits beyond the end of the leader's lease before it claims the lead.
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
        self._period = 0
        self._failed = False
        self._seen: LeaderRecord | None = None
        self._seen_at = -math.inf

    @property
    def leads(self) -> bool:
        """Whether this candidate leads at the moment. Thread-safe."""
        return self._clock() < self._ends

    @property
    def period(self) -> int:
        """The number of the period for which this candidate leads without a break or, if it doesn't lead, has led last;
        0 if it has never led. Another period begins with each claim, and with each renewal that came too late. A
        process that was frozen can tell from the number whether the candidate has led all the time. Thread-safe.
        """
        return self._period

    @property
    def leads_until(self) -> float:
        """The time on this candidate's clock at which its lease ends. If the candidate doesn't lead, this time is in
        the past.
        """
        return self._ends

    def step(self) -> bool:
        """Renew the lease, or claim it if it is free. Returns whether this candidate leads. Call this several times a
        second, from the same thread.

        If the store isn't available, the lease isn't renewed. This failure is logged only once until the store is
        available again.
        """
        try:
            if self._claimed:
                self._renew()
            if not self._claimed:
                self._look()
        except (StoreUnavailableError, ConflictError) as error:  # this candidate leads until its lease ends
            if not self._failed:
                log.warning("the store isn't available; the coordinator keeps trying", error=str(error))
            self._failed = True
        else:
            if self._failed:
                log.info("the store is available again")
            self._failed = False
        return self.leads

    def resign(self) -> None:
        """Stop leading, and let another candidate lead at once. Does nothing if this candidate hasn't claimed the lead,
        or has lost it. Call this from the thread that calls :meth:`step`.

        Raises:
            StoreUnavailableError: the resignation can't be stored. Other candidates can then lead only after the lease
                has ended.
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
            if self._clock() >= self._ends:
                self._period += 1
            self._ends = before + self._lease  # last: whoever sees that this candidate leads also sees the period

    def _look(self) -> None:
        found = self._store.leader()
        if found is not None and found != self._seen:
            self._seen, self._seen_at = found, self._clock()
        free = found is None or found.resigned or self._clock() - self._seen_at > self._patience
        if not free:
            return
        before = self._clock()
        if self._store.claim(found, self._holder):
            self._claimed = True
            self._period += 1
            self._ends = before + self._lease
