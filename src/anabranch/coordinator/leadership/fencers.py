"""Fences lanes in threads. Each job has its own threads, so that one job's brokers can't hold up other jobs."""

from __future__ import annotations

from collections.abc import Callable, Collection
from concurrent.futures import Executor, Future, ThreadPoolExecutor

from anabranch.clocks import boottime
from anabranch.coordinator.jobs.fencing import Fence

__all__ = ["Fencers", "threads"]

_THREADS = 8


def threads(job: str) -> Executor:
    """Create a thread pool for a job."""
    return ThreadPoolExecutor(_THREADS, f"anabranch-fence-{job}")


class Fencers:
    """Fences lanes in threads: a pool for each job that has lanes to fence. Not thread-safe.

    Args:
        again_after: how many seconds to wait after a failed attempt to fence a lane.
        clock: returns the current time in seconds.
        new: creates the thread pool of a job.
    """

    def __init__(
        self,
        again_after: float = 2.0,
        clock: Callable[[], float] = boottime,
        new: Callable[[str], Executor] = threads,
    ) -> None:
        self._again_after = again_after
        self._clock = clock
        self._new = new
        self._by_job: dict[str, Executor] = {}
        self._under_way: dict[tuple[str, int], Future[None]] = {}
        self._not_before: dict[tuple[str, int], float] = {}

    def hand_out(self, fence: Fence, attempt: Callable[[Fence], bool]) -> None:
        """Have a lane fenced in the thread pool of its job, unless the lane is already being fenced, or the last
        attempt to fence it failed less than ``again_after`` seconds ago.

        Args:
            attempt: fences the lane, and returns whether this succeeded.
        """
        job, key = fence.lane.job, _key(fence)
        if key in self._under_way and not self._under_way[key].done():
            return
        if self._clock() >= self._not_before.get(key, 0.0):
            if job not in self._by_job:
                self._by_job[job] = self._new(job)
            self._under_way[key] = self._by_job[job].submit(self._do, fence, attempt)

    def keep(self, due: Collection[Fence]) -> None:
        """Forget all lanes except those in ``due``. End the thread pools of jobs without such lanes, but don't wait for
        attempts that are under way."""
        keys, jobs = {_key(fence) for fence in due}, {fence.lane.job for fence in due}
        self._under_way = {key: future for key, future in self._under_way.items() if key in keys}
        # Threads add to this one meanwhile.
        self._not_before = {key: at for key, at in list(self._not_before.items()) if key in keys}
        for job in self._by_job.keys() - jobs:
            self._by_job.pop(job).shutdown(wait=False, cancel_futures=True)

    def _do(self, fence: Fence, attempt: Callable[[Fence], bool]) -> None:
        fenced = False
        try:
            fenced = attempt(fence)
        finally:
            if not fenced:
                self._not_before[_key(fence)] = self._clock() + self._again_after


def _key(fence: Fence) -> tuple[str, int]:
    return fence.lane.id, fence.lane.epoch
