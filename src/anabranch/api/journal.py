"""What a message has changed in state and timers, so that it can be taken back: all of it or nothing is kept."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Journal"]


class Journal:
    """How to undo each change since the last :meth:`begin`, in order."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def begin(self) -> None:
        """What was changed so far stays."""
        self._undo.clear()

    def note(self, undo: Callable[[], None]) -> None:
        """Something is about to change."""
        self._undo.append(undo)

    def take_back(self) -> None:
        """As it was at the last :meth:`begin`."""
        while self._undo:
            self._undo.pop()()
