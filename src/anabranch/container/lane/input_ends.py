"""The end offsets of a lane's inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import monotonic

from anabranch import logs
from anabranch.errors import AnabranchError
from anabranch.model.ssp import SSP, texts

__all__ = ["InputEnds"]

log = logs.get_logger()

_EVERY = 0.5


class InputEnds:
    """Looks up end offsets, and keeps the last known ones for use while a system is slow to answer or can't be reached.

    Args:
        lane: the lane's id, for the log.
        look: looks up the current end offsets, by whole SSP.
        until: returns the offsets beyond which the lane doesn't read, by whole SSP; None if the lane keeps running.

    Attributes:
        sure: whether the last lookup succeeded.
    """

    def __init__(
        self,
        lane: str,
        look: Callable[[], Mapping[SSP, int]],
        until: Callable[[], Mapping[SSP, int] | None],
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._lane = lane
        self._look = look
        self._until = until
        self._clock = clock
        self._known: dict[str, int] = {}
        self._at = -_EVERY
        self.sure = False

    def now(self, fresh: bool = False) -> dict[str, int]:
        """The end offsets, by SSP in text form. They are looked up again if ``fresh`` is True, or if the last
        lookup was at least half a second ago. An end offset beyond ``until`` is replaced by the offset in ``until``.
        If the lookup fails, the result is the last known end offsets; {} if none are known yet.
        """
        if fresh or self._clock() >= self._at + _EVERY:
            try:
                ends = self._look()
            except AnabranchError as error:
                log.debug("the ends of the inputs aren't known", lane=self._lane, error=str(error))
                self.sure = False
            else:
                self.sure = True
                until = self._until() or {}
                self._known = texts({ssp: min(end, until.get(ssp, end)) for ssp, end in ends.items()})
            self._at = self._clock()
        return self._known
