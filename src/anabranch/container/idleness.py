"""Which SSPs of a lane have been read to their ends, and have had no new records for long."""

from __future__ import annotations

from collections.abc import Collection, Mapping

__all__ = ["Idleness"]

Positions = Mapping[str, int]
"""Offsets by SSP in text form."""


class Idleness:
    """Follows the positions of a lane, and says which of its SSPs are idle.

    Args:
        patience: seconds without a record after which an SSP is idle. They count from when the SSP is first seen,
            because records that arrived before that aren't known.
    """

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._seen: dict[str, tuple[int, float]] = {}

    def carry(self, idle: Collection[str], positions: Positions, ends: Positions) -> dict[str, int]:
        """Mark SSPs as idle that were idle when the lane ended, unless they have new records. Returns these SSPs, each
        with its position.
        """
        still = {ssp: positions[ssp] for ssp in idle if ssp in positions and positions[ssp] >= ends.get(ssp, -1)}
        self._seen |= {ssp: (at, -self._patience) for ssp, at in still.items()}
        return still

    def seen(self, positions: Positions, ends: Positions, now: float) -> dict[str, int]:
        """The SSPs that are idle, each with its position. ``now``: seconds on a clock that never goes back. An SSP
        whose end isn't known isn't idle.
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
