"""Up to where a lane's inputs can be read, as was looked up last: some systems take long to tell, and may be away."""

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
    """``look`` finds them; ``until``: noted ends, beyond which a lane doesn't read, None if it reads on. ``sure``:
    whether they were told when they were looked up last."""

    def __init__(
        self,
        lane: str,
        look: Callable[[], Mapping[SSP, int]],
        until: Mapping[SSP, int] | None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._lane = lane
        self._look = look
        self._until = until or {}
        self._clock = clock
        self._known: dict[str, int] = {}
        self._at = -_EVERY
        self.sure = False

    def now(self, fresh: bool = False) -> dict[str, int]:
        """The ends by the texts of SSPs, half a second old at most; ``fresh``: as they are. Those that were known last,
        if they aren't told."""
        if fresh or self._clock() >= self._at + _EVERY:
            try:
                ends = self._look()
            except AnabranchError as error:
                log.debug("the ends of the inputs aren't known", lane=self._lane, error=str(error))
                self.sure = False
            else:
                self.sure = True
                self._known = texts({ssp: min(end, self._until.get(ssp, end)) for ssp, end in ends.items()})
            self._at = self._clock()
        return self._known
