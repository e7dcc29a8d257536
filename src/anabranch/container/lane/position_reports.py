"""Commits a running lane's positions to the systems of its inputs, for tools that show lag."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from anabranch.model.ssp import SSP, parsed

__all__ = ["PositionReports"]

_EVERY = 1.0
_MOST = 60.0
"""The pause between two commits lasts at least ``_EVERY`` seconds. While commits fail, the pause grows to at most
``_MOST`` seconds. Commits fail, for example, if the user has no right to commit, or if the group's coordinator is
unavailable."""


class PositionReports:
    """Commits positions in a separate thread, because brokers may be slow to answer. Used by the lane's own thread.

    Args:
        tell: commits positions, and returns whether all were committed.
    """

    def __init__(self, tell: Callable[[Mapping[SSP, int]], bool]) -> None:
        self._tell = tell
        self._told: dict[str, int] = {}
        self._pause = _EVERY
        self._due = 0.0
        self._thread: threading.Thread | None = None

    def offer(self, positions: Mapping[str, int], now: float) -> None:
        """Start to commit ``positions`` (by SSP in text form) if they have changed since the last commit, and if the
        next commit is due. ``now`` is the time in seconds, on a clock that never goes back."""
        if now < self._due or positions == self._told or (self._thread is not None and self._thread.is_alive()):
            return
        self._due = now + self._pause
        self._thread = threading.Thread(target=self._commit, args=(dict(positions),), name="positions", daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Wait for a running commit, so that it can't overtake a later one."""
        if self._thread is not None:
            self._thread.join()

    def _commit(self, positions: dict[str, int]) -> None:
        if self._tell(parsed(positions)):
            self._told, self._pause = positions, _EVERY
        else:
            self._pause = min(2 * self._pause, _MOST)
