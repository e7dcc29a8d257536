"""Keeps the metrics of the jobs that a coordinator serves, recorded every ten seconds."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from anabranch.coordinator.jobs.registry import JobRegistry
from anabranch.coordinator.jobs.running_job import RunningJob
from anabranch.coordinator.store import stored_jobs
from anabranch.coordinator.views.job_history import DAY, HOUR, SERIES, STEP, JobHistory, known
from anabranch.errors import UsageError
from anabranch.model.naming import check_name
from anabranch.views.history import History

__all__ = ["Histories"]


class Histories:
    """Records the metrics of the served jobs, and returns them. Thread-safe."""

    def __init__(self, registry: JobRegistry) -> None:
        self._registry = registry
        self._by_job: dict[str, JobHistory] = {}
        self._lock = threading.Lock()

    def sample(self) -> None:
        """Record the current metrics of each served job, once in each step of ten seconds, and forget metrics that are
        too old. Call this about once a second, or more often."""
        slot = int(self._registry.now() // STEP)
        with self._lock:
            served = list(self._registry.jobs)
            self._forget(slot, set(self._by_job) - set(served))
            for job in served:
                its = self._by_job.setdefault(job, JobHistory())
                if slot < its.last - 1:  # the clock was set back, so the recorded values would be in the future
                    its = self._by_job[job] = JobHistory()
                if slot > its.last and (found := self._snapshot(job)) is not None:
                    its.look(found, self._registry.now())

    def _forget(self, slot: int, jobs: Iterable[str]) -> None:
        """Forget the metrics of jobs that aren't served any more. The metrics of lanes are forgotten after an hour, and
        all other metrics after a day.
        """
        for job in jobs:
            its = self._by_job[job]
            if slot - its.last > DAY or slot < its.last - 1:
                del self._by_job[job]
            elif slot - its.last > HOUR:
                its.lanes.clear()

    def history(
        self, job: str, series: str = "lag,rows,arriving", by: str = "stage", since: float = 0.0, until: float = 0.0
    ) -> History:
        """The metrics of a job, from the step that contains ``since`` through the step that contains ``until``.

        Args:
            series: names from ``SERIES``, separated by commas.
            by: whether to return metrics of the ``job``, of each ``stage`` or of each ``lane``.
            since: a time in seconds since 1970; 0.0 for about an hour before ``until``.
            until: a time in seconds since 1970; 0.0 for now.

        Raises:
            NotFoundError: there is no such job.
            UsageError: ``series`` or ``by`` names something unknown, or metrics of more than a day are requested.
        """
        names = [each for each in series.split(",") if each]
        unknown = next((each for each in names if each not in SERIES), None)
        if unknown is not None:
            cure = f"ask for some of {', '.join(SERIES)}"
            raise UsageError(f"there are no figures {unknown[:40]!r}", cure)
        if by not in ("job", "stage", "lane"):
            raise UsageError(f"there are no figures by {by[:40]!r}", "ask for those by job, stage or lane")
        check_name("job", job)
        if job not in self._registry.jobs:
            stored_jobs.deployment(self._registry.store, job)
        now, step = self._registry.now(), STEP
        after = int(min(until, now) // step if until else now // step) + 1
        first = int(since // step) if since else after - HOUR
        if after - first > DAY + 1:  # the range includes the steps of both ends
            raise UsageError("more than a day was requested", "ask for a day or less: there are no older figures")
        with self._lock:
            its = self._by_job.get(job, JobHistory())
            values = {
                name: {whose: known(rings[name].get(first, after)) for whose, rings in its.of(by).items()}
                for name in names
            }
        begins = None if its.since is None else its.since * step
        return History(at=now, job=job, by=by, t0=first * step, step=step, since=begins, values=values)

    def lag_trend(self, job: str) -> float | None:
        """How fast a job's lag changed over the last minute, in offsets per second; None if unknown."""
        with self._lock:
            return self._by_job[job].trend(self._registry.now()) if job in self._by_job else None

    def _snapshot(self, job: str) -> RunningJob | None:
        with self._registry.locked_as_seen() as jobs:
            return jobs[job].snapshot() if job in jobs else None
