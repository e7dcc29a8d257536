"""Records how a message changed state and timers, so that all of its changes are kept or none."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Journal"]


class Journal:
    """How to undo each change since the last :meth:`begin`, in order."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def begin(self) -> None:
        """Keep everything that was changed so far."""
        self._undo.clear()

    def note(self, undo: Callable[[], None]) -> None:
        """Something is about to change."""
        self._undo.append(undo)

    def take_back(self) -> None:
        """Restore the state of the last :meth:`begin`."""
        while self._undo:
            self._undo.pop()()
