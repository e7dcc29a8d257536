"""Prepares lanes while their predecessors are still running, which makes changes faster."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from time import monotonic
from typing import Generic, TypeVar

from anabranch import logs
from anabranch.model.lane import Lane

__all__ = ["Preparations"]

log = logs.get_logger()

_Key = tuple[str, int]
T = TypeVar("T")
_PATIENCE = 5.0


class Preparations(Generic[T]):
    """For each upcoming lane, takes over the lane's outputs and analyzes its query, in a separate thread. If one of
    these steps fails, the step is repeated when the lane starts.

    Args:
        take: takes over a lane's outputs.
        done: called when a preparation has ended.
        foresee: returns a lane's analyzed query; None if the query can't be analyzed in advance.
    """

    def __init__(
        self,
        take: Callable[[Lane], None],
        done: Callable[[], None] = lambda: None,
        foresee: Callable[[Lane], T | None] = lambda _: None,
    ) -> None:
        self._take = take
        self._done = done
        self._foresee = foresee
        self._begun: dict[_Key, _Preparation[T]] = {}

    def begin(self, coming: Iterable[Lane], wanted: Iterable[str] = ()) -> None:
        """Start to prepare each lane in ``coming``, unless its preparation was already started under its current epoch.
        Results are kept only for lanes in ``coming``, and for lanes whose ids are in ``wanted``."""
        lanes, mine = {(lane.id, lane.epoch): lane for lane in coming}, {*wanted}
        for key, begun in tuple(self._begun.items()):
            if key not in lanes and key[0] not in mine and not begun.is_alive():
                del self._begun[key]
        for key, lane in lanes.items():
            if key not in self._begun:
                self._begun[key] = _Preparation(self._take, self._foresee, lane, self._done)
                self._begun[key].start()

    def under_way(self, coming: Iterable[Lane]) -> bool:
        """True if at least one lane in ``coming`` is being prepared, and its preparation began less than ``_PATIENCE``
        seconds ago. If the result is True, the predecessors should keep running.
        """
        begun = [self._begun.get((lane.id, lane.epoch)) for lane in coming]
        return any(each is not None and each.is_under_way for each in begun)

    def ended(self, coming: Iterable[Lane]) -> tuple[str, ...]:
        """The ids of the ``coming`` lanes whose preparation was started and is no longer :meth:`under_way`."""
        return tuple(lane.id for lane in coming if (lane.id, lane.epoch) in self._begun and not self.under_way([lane]))

    def taken(self, lane: Lane) -> bool:
        """Wait for a lane's preparation to end, and return whether the lane's outputs were taken over under its current
        epoch. Return False at once if no preparation was started."""
        preparation = self._begun.get((lane.id, lane.epoch))
        if preparation is None:
            return False
        preparation.join()
        return preparation.taken

    def foreseen(self, lane: Lane) -> T | None:
        """The analyzed query of a lane under its current epoch; None if it isn't ready yet, or couldn't be prepared."""
        preparation = self._begun.get((lane.id, lane.epoch))
        return None if preparation is None else preparation.foreseen


class _Preparation(threading.Thread, Generic[T]):
    def __init__(
        self,
        take: Callable[[Lane], None],
        foresee: Callable[[Lane], T | None],
        lane: Lane,
        done: Callable[[], None],
    ) -> None:
        super().__init__(name=f"prepares {lane.id}", daemon=True)
        self._take = take
        self._foresee = foresee
        self.foreseen: T | None = None
        self._lane = lane
        self._done = done
        self._begun = monotonic()
        self._ended = threading.Event()
        self.taken = False

    @property
    def is_under_way(self) -> bool:
        return not self._ended.is_set() and monotonic() < self._begun + _PATIENCE

    def run(self) -> None:
        try:
            self._take(self._lane)
            self.taken = True
            self.foreseen = self._foresee(self._lane)
        except Exception as error:
            log.info("a coming lane isn't prepared", lane=self._lane.id, taken=self.taken, error=str(error))
        finally:
            self._ended.set()
            self._done()
