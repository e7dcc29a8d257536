"""Whether a batch may still be broken off: everything that makes it visible to others passes a gate, which can be shut
before that.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic

__all__ = ["BrokenOffError", "Gate", "Visible"]

_TOLD = "the batch was broken off"


class BrokenOffError(Exception):
    """The batch was broken off, so no more work may be done for it."""


@dataclass(frozen=True)
class Visible:
    """What others may see of a batch: ``what`` was done. ``exact``: whether the output shows each record only once.
    Such an output would show it twice if the record were read again under another batch number.
    """

    what: str
    exact: bool


@dataclass
class Gate:
    """The gate for the batches of one query, of which only one is written at a time. Once shut, it stays shut.
    Thread-safe.

    A batch is written by a thread that Spark calls, which may keep running for some time after its query was stopped.
    The thread calls :meth:`passes` right before each step that others may see. Either that step is recorded first, and
    :meth:`shut` reports it; or the gate was shut first, and the step never happens.
    """

    clock: Callable[[], float] = monotonic
    check_owner: Callable[[], object] = lambda: None
    """Raises FencedError if the lane's folder now belongs to another process. If so, nothing of a batch may become
    visible.
    """
    number: int = -1
    begun_at: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _seen: list[Visible] = field(default_factory=list)
    _is_shut: bool = False

    def begins(self, number: int) -> None:
        """Record that a batch begins to be written and isn't visible yet. Raises BrokenOffError if the gate is shut."""
        with self._lock:
            self._check()
            self._seen = []
            self.number, self.begun_at = number, self.clock()

    def check(self) -> None:
        """Raises BrokenOffError if the gate is shut, and FencedError if another process has the lane. Call it before
        invisible work, which would then be done in vain.
        """
        self.check_owner()
        with self._lock:
            self._check()

    def passes(self, what: str, *, exact: bool) -> None:
        """Record that the batch is about to become visible to others; ``what`` says how, for example "it is being
        published". Raises BrokenOffError if the gate is shut, and FencedError if another process has the lane.
        """
        self.check_owner()
        with self._lock:
            self._check()
            self._seen.append(Visible(what, exact))

    def shut(self, *, duplicates: bool = False) -> str:
        """Prevent anything more of the batch from becoming visible. If some of it may already be visible, returns what,
        and the gate stays open, unless ``duplicates`` are accepted and the output repeats rows anyway whenever a batch
        is run again.
        """
        with self._lock:
            seen = [each.what for each in self._seen if each.exact or not duplicates]
            self._is_shut = self._is_shut or not seen
            return "" if self._is_shut else seen[0]

    @contextmanager
    def quietly(self) -> Iterator[None]:
        """If the body fails because the batch was broken off, only that error is raised. (Spark searches error texts
        with a regular expression that can't handle long ones.)
        """
        try:
            yield
        except Exception:
            if self._is_shut:
                raise BrokenOffError(_TOLD) from None
            raise

    @property
    def seconds(self) -> float:
        """For how many seconds the batch has been written."""
        return self.clock() - self.begun_at

    def _check(self) -> None:
        if self._is_shut:
            raise BrokenOffError(_TOLD)
