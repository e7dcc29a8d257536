"""Estimates how long a successor of a stateful lane takes to replay changes to the state.

Spark stores the changes that each batch makes, and takes a snapshot of the state from time to time. To load the state,
a process reads the last snapshot, and replays all later changes. After many records, replaying takes much longer
than copying the files.
"""

from __future__ import annotations

from collections import deque

from anabranch.spark.query.history import CompletedBatch

__all__ = ["StateReplay"]

_EACH = 5e-6
"""How many seconds replaying one change is assumed to take, as long as the real time hasn't been measured."""
_MOST = 1000
"""The maximum number of versions of the state for which the replay time is kept separately. If there are more versions,
the times of the oldest ones are added up."""


class StateReplay:
    """Keeps the estimate for one lane up to date as the lane's batches end. ``tasks`` is the number of Spark tasks that
    replay at the same time. If Spark doesn't report its snapshots, the changes that new batches make are left
    out of the estimate."""

    def __init__(self, tasks: int) -> None:
        self._tasks = max(1, tasks)
        self._work: deque[tuple[int, float]] = deque()
        """The versions of the state since the last snapshot. For each version, the seconds that one Spark task would
        need to replay its changes."""

    @property
    def seconds(self) -> float:
        """How many seconds a successor would probably spend on replaying changes if it started now."""
        return sum(work for _, work in self._work) / self._tasks

    def ran(self, batch: CompletedBatch) -> None:
        """Record a batch that has ended. The batch with number n makes version n + 1 of the state."""
        if batch.replay_seconds or batch.snapshot is None:  # the batch has loaded the state
            self._work = deque([(batch.number, batch.replay_seconds)])
        if batch.snapshot is None:
            return
        self._work.append((batch.number + 1, batch.state_changes * _EACH))
        while self._work and self._work[0][0] <= batch.snapshot:
            self._work.popleft()
        if len(self._work) > _MOST:
            (_, first), (version, second) = self._work.popleft(), self._work.popleft()
            self._work.appendleft((version, first + second))
