"""Whether a batch may still be broken off: what others may see of it passes a gate, which can be shut before that."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic

__all__ = ["BrokenOffError", "Gate", "Visible"]

_TOLD = "the batch was broken off"


class BrokenOffError(Exception):
    """The batch was broken off: nothing more of it may be done."""


@dataclass(frozen=True)
class Visible:
    """What others may see of a batch: ``what`` was done. ``exact``: where it is seen once, or else more often if the
    records are read again under another number."""

    what: str
    exact: bool


@dataclass
class Gate:
    """Of the batches of one query, of which one is written at a time; shut, it stays so. Thread-safe.

    A batch is written by a thread of Spark's calls, which goes on for some time after its query was stopped. It calls
    :meth:`passes` right before each thing that others may see: either it is noted there first, and :meth:`shut` says
    so, or the gate was shut first, and it is never done.
    """

    clock: Callable[[], float] = monotonic
    check_owner: Callable[[], object] = lambda: None
    """Raises FencedError if the lane's folder is another process's by now: nothing may be seen of a batch then."""
    number: int = -1
    begun_at: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _seen: list[Visible] = field(default_factory=list)
    _is_shut: bool = False

    def begins(self, number: int) -> None:
        """A batch begins to be written: nothing is seen of it. Raises BrokenOffError if the gate is shut."""
        with self._lock:
            self._check()
            self._seen = []
            self.number, self.begun_at = number, self.clock()

    def check(self) -> None:
        """Raises BrokenOffError if the gate is shut, FencedError if another process has the lane. Call it before work
        that nobody sees: it would be for nothing."""
        self.check_owner()
        with self._lock:
            self._check()

    def passes(self, what: str, *, exact: bool) -> None:
        """The batch is about to become visible to others; ``what`` says how, for example "it is being published".
        Raises BrokenOffError if the gate is shut, FencedError if another process has the lane.
        """
        self.check_owner()
        with self._lock:
            self._check()
            self._seen.append(Visible(what, exact))

    def shut(self, *, duplicates: bool = False) -> str:
        """Let nothing more of the batch be seen. Gives what may have been seen of it: then the gate stays open;
        ``duplicates``: unless that is seen more than once wherever a batch is run again."""
        with self._lock:
            seen = [each.what for each in self._seen if each.exact or not duplicates]
            self._is_shut = self._is_shut or not seen
            return "" if self._is_shut else seen[0]

    @contextmanager
    def quietly(self) -> Iterator[None]:
        """What fails in the block for the batch was broken off is told as that alone: Spark looks through what it is
        told with an expression that long texts are too long for."""
        try:
            yield
        except Exception:
            if self._is_shut:
                raise BrokenOffError(_TOLD) from None
            raise

    @property
    def seconds(self) -> float:
        """For how long the batch has been written."""
        return self.clock() - self.begun_at

    def _check(self) -> None:
        if self._is_shut:
            raise BrokenOffError(_TOLD)
