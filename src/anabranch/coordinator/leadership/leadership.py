"""Lets several coordinators use one store: a coordinator serves jobs while it leads, and stands by otherwise."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from anabranch import logs
from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.jobs.fencing import Fence
from anabranch.coordinator.launcher.launcher import Launcher
from anabranch.coordinator.leadership.election import Election
from anabranch.coordinator.leadership.fencers import Fencers
from anabranch.coordinator.leadership.job_locks import JobLocks
from anabranch.coordinator.store import Store
from anabranch.errors import AnabranchError, ConflictError, NotLeadingError, StoreUnavailableError
from anabranch.model.lane import Lane
from anabranch.protocol.deployment import StartRequest
from anabranch.throttle import LastTold

__all__ = ["Leadership"]

_EVERY = 0.25
_AGAIN_AFTER = 5.0
"""The seconds between a failed attempt to serve a job and the next attempt. If the attempt failed because the store
wasn't available, the next attempt is made in the next :meth:`Leadership.turn`.
"""

log = logs.get_logger()

Fencing = Callable[[Lane, Mapping[str, Any]], None]


class Leadership:
    """Inside ``with``, takes part in the election. While the coordinator leads, adopts and advances the store's jobs,
    has lanes fenced, and has the launcher start and end containers.

    If the store is in SQLite, jobs that an ``anabranch run`` process serves are left to that process.

    Args:
        url: this coordinator's URL.
        fence: fences a lane, given the lane and its job's settings.
        launcher: starts the containers; None if something else does.
        fencers: the threads in which lanes are fenced; None to create them.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        store: Store,
        store_url: str,
        election: Election,
        url: str,
        fence: Fencing,
        launcher: Launcher | None = None,
        fencers: Fencers | None = None,
    ) -> None:
        self._coordinator = coordinator
        self._store = store
        self._election = election
        self._url = url
        self._locks = JobLocks(store_url, url)
        coordinator.registry.owning = self._locks.taken
        coordinator.membership.leads = lambda: self.leads
        coordinator.registry.has_launcher = launcher is not None
        self._fence = fence
        self._launcher = launcher
        self._period = 0
        """The period of the election in which this coordinator has adopted the store's jobs; 0 if it serves no jobs."""
        self._left: set[str] = set()
        self._again_from: dict[str, float] = {}
        self._told = LastTold()
        self._ended = threading.Event()
        self._fencers = fencers or Fencers()
        self._thread = threading.Thread(target=self._run, name="anabranch-leadership", daemon=True)

    def __enter__(self) -> Leadership:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._fencers.keep(())

    @property
    def leads(self) -> bool:
        """Whether this coordinator leads, and has led without a break since it adopted the store's jobs."""
        return self._election.leads and self._period == self._election.period

    def check(self) -> None:
        """Raises NotLeadingError unless this coordinator leads."""
        if self.leads:
            return
        found = self._store.leader()
        if found is None or found.resigned or found.holder == self._url:
            raise NotLeadingError("no coordinator leads now", "try again in some seconds")
        raise NotLeadingError(f"this coordinator stands by; {found.holder} leads", f"ask {found.holder}")

    def start(self, start: StartRequest) -> int:
        """See :meth:`Coordinator.start`."""
        with self._locks.taken(start.graph.job):
            return self._coordinator.start(start)

    def resume(self, job: str) -> int:
        """See :meth:`Coordinator.resume`."""
        with self._locks.taken(job):
            return self._coordinator.resume(job)

    def _run(self) -> None:
        while not self._ended.wait(_EVERY):
            try:
                self.turn()
                self._told.over()
            except AnabranchError as error:
                if self._told.is_new(str(error)):
                    log.warning("the coordinator could not go on; it tries again", error=str(error))
            except Exception as error:
                if self._told.is_new(repr(error)):
                    log.exception("the coordinator failed; it tries again")
        try:
            self._election.resign()
        except AnabranchError as error:
            log.warning(
                "the coordinator could not resign; another one leads once its lease has ended", error=str(error)
            )
        self.step_down()

    def turn(self) -> None:
        """Take part in the election and, if this coordinator leads, do the work that is due for the jobs. Not
        thread-safe.
        """
        leads = self._election.step()
        if self._period and not leads:
            log.warning("another coordinator may lead now; this one stands by")
            self.step_down()
        elif self._period and self._period != self._election.period:
            # While this coordinator slept or had no store, no heartbeats arrived. No process may be expelled for that.
            log.warning("this coordinator was away, and leads again")
            self._period = 0
        if leads and not self._period:
            # A late request may have begun to serve jobs since this coordinator last led.
            self._coordinator.abandon()
            self._left = set(self._store.jobs())
            self._again_from.clear()
            self._told.keep(lambda about: about is None)
            if self._launcher is not None:
                self._launcher.forget()
        if leads:
            self._adopt_left()
            self._period = self._election.period
            self._coordinator.tick()
            fences = self._coordinator.fences()
            due = {(fence.lane.id, fence.lane.epoch) for fence in fences}
            self._told.keep(lambda about: not isinstance(about, tuple) or about in due)
            self._fencers.keep(fences)
            for fence in fences:
                self.hand_out(fence)
            self._locks.give_those(self._coordinator.release)  # anabranch run may now serve these jobs
            if self._launcher is not None and self.leads:  # otherwise, it may not have heard from living containers
                self._launcher.turn(self._coordinator)

    def _adopt_left(self) -> None:
        clock = self._coordinator.registry.clock
        for job in sorted(self._left):
            if clock() < self._again_from.get(job, 0.0):
                continue
            try:
                if self._adopt(job):
                    self._left.discard(job)
                    self._told.over(job)
            except Exception as error:  # a problem with this job must not affect the other jobs
                if not isinstance(error, (StoreUnavailableError, NotLeadingError)):
                    self._again_from[job] = clock() + _AGAIN_AFTER
                if self._told.is_new(str(error), job):
                    log.warning("a job can't be served yet; it is tried again", job=job, error=str(error))

    def _adopt(self, job: str) -> bool:
        """Serve a job if it runs, or should run, in separate processes. Returns False if another process holds the
        job's lock: ``anabranch run``, or a former leader that is frozen."""
        with self._locks.reserved():  # a request may start the job meanwhile, and then needs the lock
            try:
                taken = self._locks.take(job)
            except ConflictError:
                return False
            adopted = False
            try:
                adopted = self._coordinator.adopt(job)
            finally:
                if taken and not adopted:
                    self._locks.give(job)
        return True

    def hand_out(self, fence: Fence) -> None:
        """Have a lane fenced; see :meth:`Fencers.hand_out`."""
        self._fencers.hand_out(fence, self._do)

    def _do(self, fence: Fence) -> bool:
        """Fence a lane. Returns whether this succeeded."""
        lane = fence.lane
        try:
            self._fence(lane, fence.settings)
            self._coordinator.fenced(lane)
            return True
        except Exception as error:  # fences() keeps returning the lane, so fencing is tried again
            why = str(error)
            ours = self.leads and not isinstance(error, NotLeadingError)  # otherwise, another coordinator fences it
            if ours and self._told.is_new(why, (lane.id, lane.epoch)):
                log.warning("a lane can't be fenced yet; it is tried again", lane=lane.id, epoch=lane.epoch, error=why)
                self._coordinator.fence_failed(lane, why)
            return False

    def step_down(self) -> None:
        """Stop serving jobs, and leave them to other coordinators."""
        self._period = 0
        self._coordinator.abandon()
        self._locks.give_those(lambda job: True)
