"""Remembers which timers ``on_timer`` has deleted in its calls for other timers."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["DeletedTimers"]


class DeletedTimers:
    """The timers that ``on_timer`` has deleted in one Spark task, and for which ``on_timer`` must not be called. (Spark
    collects the due timers in advance, and doesn't notice that some of them are deleted afterwards.)
    """

    def __init__(self) -> None:
        self._deleted: set[tuple[int, bytes, int]] = set()

    def has(self, task: int, key: bytes, at: int) -> bool:
        """Whether a timer was deleted, and not registered again."""
        return (task, key, at) in self._deleted

    def note(self, task: int, key: bytes, timers: Mapping[int, bool]) -> None:
        """Record which timers a call has changed. For ``timers``, see :class:`anabranch.spark.functions.turns.Turn`."""
        for at, there in timers.items():
            (self._deleted.discard if there else self._deleted.add)((task, key, at))
