"""Warns in the log if a lane's time is ahead of the machine's clock."""

from __future__ import annotations

from anabranch import logs

__all__ = ["SetBack"]

_IN_STEP = 1_000
"""How many ms a lane's time may be ahead of the machine's clock without a warning."""

log = logs.get_logger()


class SetBack:
    """Warns if a lane's time is more than a second ahead of the machine's clock. Warns again whenever the difference
    has grown by more than a second since the last warning.
    """

    def __init__(self, lane: str) -> None:
        self._lane = lane
        self._told = 0

    def look(self, at: int, wall: int) -> None:
        """Log a warning if ``at``, the time at which a batch was planned, is too far ahead of ``wall``, the machine's
        time when the batch runs. Both are in Unix ms.
        """
        ahead = at - wall
        if ahead <= self._told + _IN_STEP:
            return
        self._told = ahead
        log.warning(
            "the clock of this machine is behind the lane's last batch: it was set back, or the lane has come from a "
            "machine whose clock is ahead. Its windows and timers of processing time continue from where they were, a "
            "tenth slower, until the clock has caught up",
            lane=self._lane,
            seconds=round(ahead / 1000),
        )
