"""How many attempts a lane gets, and when it counts as stalled. Pure: no clock, no threads, no Spark."""

from __future__ import annotations

from anabranch.protocol.lane_report import LaneReport

__all__ = ["Retries", "Standstill"]

_FIRST, _LONGEST = 1.0, 60.0
_MOST_DOUBLINGS = 6


class Retries:
    """Counts the consecutive failures of one lane, with no committed batch between them.

    Args:
        most: the number of failures after which there is no further attempt.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._batch = -1
        self._failures = 0

    def again(self, batch: int, before: int = -1) -> float | None:
        """The pause in seconds between a failure and the next attempt; None if there is no further attempt.

        Args:
            batch: the last committed batch, -1 for none.
            before: the last batch that was committed before the failed attempt, -1 for none.
        """
        failures = self._counted(batch, before)
        return None if failures >= self._most else float(min(_LONGEST, _FIRST * 2 ** (failures - 1)))

    def begin(self, batch: int, before: int = -1) -> None:
        """Record that the lane gets another attempt after a failure. For the arguments, see :meth:`again`."""
        self._failures = self._counted(batch, before)
        self._batch = max(self._batch, batch, before)

    def _counted(self, batch: int, before: int) -> int:
        return 1 if batch > max(self._batch, before) else self._failures + 1


class Standstill:
    """Detects an SSP in which a lane makes no progress although there are records to read. An SSP counts as
    stalled after a certain time without progress. Because batches may simply take a long time, each
    detection doubles this time, to at most ``64 * after``.

    Args:
        after: how many seconds an SSP with records to read must keep the same position before it first counts as
            stalled.
    """

    def __init__(self, after: float) -> None:
        self._after = after
        self._patience = after
        self._since: dict[str, tuple[int, float]] = {}

    def begin(self) -> None:
        """Forget all positions, so that time without progress before this call doesn't count."""
        self._since.clear()

    def seen(self, report: LaneReport, now: float) -> str:
        """A sentence about an SSP that has stalled at ``now`` (seconds on any clock); empty if no SSP has stalled."""
        for ssp, end in report.progress.ends.items():
            at = report.progress.positions.get(ssp, 0)
            before = self._since.get(ssp)
            if at >= end:
                self._since.pop(ssp, None)
            elif before is None or before[0] != at:
                self._since[ssp] = at, now
            elif now - before[1] > self._patience:
                told = f"{ssp} has been at offset {at} for {now - before[1]:.0f} s, with records up to {end}"
                self._patience = min(self._patience * 2, self._after * 2**_MOST_DOUBLINGS)
                self._since.clear()
                return told
        return ""
