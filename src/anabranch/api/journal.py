"""Records how a message changes state and timers, so that either all of its changes are kept or none."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Journal"]


class Journal:
    """The undo steps for each change since the last :meth:`begin`, in order."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def begin(self) -> None:
        """Keep all changes made so far."""
        self._undo.clear()

    def note(self, undo: Callable[[], None]) -> None:
        """Record how to undo a change that is about to be made."""
        self._undo.append(undo)

    def take_back(self) -> None:
        """Restore the state of the last :meth:`begin`."""
        while self._undo:
            self._undo.pop()()
