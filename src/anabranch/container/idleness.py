"""Finds the idle SSPs of a lane."""

from __future__ import annotations

from collections.abc import Collection, Mapping

__all__ = ["Idleness"]

Positions = Mapping[str, int]
"""Offsets by SSP in text form."""


class Idleness:
    """Tracks a lane's positions, and determines which of the lane's SSPs are idle.

    Args:
        patience: the seconds without a new record after which an SSP is idle. The time before the SSP is first seen
            doesn't count. :meth:`carry` makes an exception for SSPs that were idle when the lane last ended.
    """

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._seen: dict[str, tuple[int, float]] = {}

    def carry(self, idle: Collection[str], positions: Positions, ends: Positions) -> dict[str, int]:
        """Mark as idle the SSPs that were idle when the lane last ended. Call this when the lane starts. Returns the
        marked SSPs with their positions.

        Args:
            idle: the SSPs that were idle when the lane last ended. SSPs without a position aren't marked.
            ends: the end offsets that are known. An SSP isn't marked if its end offset is beyond its
                position.
        """
        still = {ssp: positions[ssp] for ssp in idle if ssp in positions and positions[ssp] >= ends.get(ssp, -1)}
        self._seen |= {ssp: (at, -self._patience) for ssp, at in still.items()}
        return still

    def seen(self, positions: Positions, ends: Positions, now: float) -> dict[str, int]:
        """The idle SSPs with their positions. An SSP whose end offset isn't known isn't idle. ``now`` is in seconds on
        a monotonic clock.
        """
        found = {}
        for ssp, at in positions.items():
            before, since = self._seen.get(ssp, (at, now))
            if at != before or at < ends.get(ssp, at + 1):
                since = now
            self._seen[ssp] = (at, since)
            if now - since >= self._patience:
                found[ssp] = at
        return found
