"""Records how one call to ``on_message`` or ``on_timer`` changes state and timers, so these changes can be undone."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Journal"]


class Journal:
    """The undo steps of the changes since the last :meth:`begin`, in the order of the changes."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def begin(self) -> None:
        """Keep all changes made so far: forget their undo steps."""
        self._undo.clear()

    def note(self, undo: Callable[[], None]) -> None:
        """Record how to undo a change that is about to be made."""
        self._undo.append(undo)

    def take_back(self) -> None:
        """Undo all changes since the last :meth:`begin`, the latest first."""
        while self._undo:
            self._undo.pop()()
