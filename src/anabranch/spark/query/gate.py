"""Determines whether a batch can still be broken off. The driver makes a batch visible to others step by step. Before
each step, the driver calls the query's :class:`Gate`. Once the gate is shut, this call raises an error, so the driver
can't take the step.

If an output has slots (in Kafka), Python workers make the output's rows visible without calling the gate. Only the
output can show whether the workers have already done this.
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
    """The batch was broken off, so work on it must stop."""


@dataclass(frozen=True)
class Visible:
    """A part of a batch that may already be visible outside the lane.

    Attributes:
        what: the step that may have made the part visible, in words that follow "the batch".
        exact: whether the part is in an exactly-once output. If so, the batch must not be broken off: the output
            recognizes a repetition of the same batch, but if a batch with another number read the same records, the
            output would contain them twice.
    """

    what: str
    exact: bool


@dataclass
class Gate:
    """Decides whether parts of a query's batches may still become visible to others. The batches are written one after
    another. A gate that is shut stays shut. Thread-safe.

    A batch is written by one of Spark's threads, which may continue for some time after the query is stopped. The
    thread calls :meth:`passes` right before each step whose effect others can see. If :meth:`passes` is called before
    :meth:`shut`, :meth:`shut` knows of the step. If :meth:`shut` is called first and shuts the gate, the step never
    happens.
    """

    clock: Callable[[], float] = monotonic
    check_owner: Callable[[], object] = lambda: None
    """Raises FencedError if the lane's folder now belongs to another process. In this case, no part of a batch must
    become visible.
    """
    number: int = -1
    begun_at: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _seen: list[Visible] = field(default_factory=list)
    _is_shut: bool = False

    def begins(self, number: int) -> None:
        """Record that the query starts to write a batch, no part of which is visible yet. Raises BrokenOffError if the
        gate is shut.
        """
        with self._lock:
            self._check()
            self._seen = []
            self.number, self.begun_at = number, self.clock()

    def check(self) -> None:
        """Raises BrokenOffError if the gate is shut, and FencedError if another process has taken the lane's folder.
        Work on the batch would then be useless, so call this even before work that isn't visible to others.
        """
        self.check_owner()
        with self._lock:
            self._check()

    def passes(self, what: str, *, exact: bool) -> None:
        """Record that the batch is about to become visible to others, by a step that ``what`` describes, for example
        "is being published". Raises the same errors as :meth:`check`.
        """
        self.check_owner()
        with self._lock:
            self._check()
            self._seen.append(Visible(what, exact))

    def shut(self, *, duplicates: bool = False) -> str:
        """Shut the gate, unless the driver may already have made a part of the batch visible. Once the gate is shut,
        the driver makes no part of a batch visible.

        Args:
            duplicates: whether to shut the gate even if a part of the batch may be visible in an at-least-once output,
                or may have been given to a ``foreach_batch``. That output or function gets this part once more when the
                batch runs again.

        Returns:
            an empty string if the gate is now shut. If the gate stays open, a description of the first step that may
            have made a part of the batch visible, for example "is being published".
        """
        with self._lock:
            seen = [each.what for each in self._seen if each.exact or not duplicates]
            self._is_shut = self._is_shut or not seen
            return "" if self._is_shut else seen[0]

    @contextmanager
    def quietly(self) -> Iterator[None]:
        """A context that replaces any error with a BrokenOffError if the batch was broken off. (Spark searches the
        texts of errors with a regular expression that can't handle long texts.)
        """
        try:
            yield
        except Exception:
            if self._is_shut:
                raise BrokenOffError(_TOLD) from None
            raise

    @property
    def seconds(self) -> float:
        """How many seconds ago the writing of the batch began."""
        return self.clock() - self.begun_at

    def _check(self) -> None:
        if self._is_shut:
            raise BrokenOffError(_TOLD)
