"""The launcher: keeps the containers of jobs running, as processes on the coordinator's machine."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from anabranch import logs
from anabranch.clocks import boottime
from anabranch.coordinator.launcher import launch_policy
from anabranch.coordinator.launcher.launch_policy import Crew, Demand
from anabranch.coordinator.launcher.processes import Processes
from anabranch.coordinator.store.address import encodable
from anabranch.errors import NotLeadingError, StoreUnavailableError
from anabranch.protocol.status import LaunchStatus
from anabranch.throttle import LastTold

__all__ = ["Launcher", "Staffed"]

_TROUBLE = "the job's containers can't be started or ended"
_MOST_NEWS = 100
"""The maximum number of a job's events that are kept while they can't be stored."""

log = logs.get_logger()


class Staffed(Protocol):
    """What a launcher needs from the coordinator."""

    def demands(self, jobs: Collection[str]) -> list[Demand]: ...

    def isolated(self, job: str, what: str) -> AbstractContextManager[None]: ...

    def launched(self, job: str, launching: LaunchStatus, news: Sequence[tuple[str, str]]) -> None: ...


class Launcher:
    """Keeps the containers of jobs running. Not thread-safe.

    Processes that an earlier launcher started on this machine are recognized by their locks.

    Args:
        clock: returns the time of the coordinator's clock.
    """

    def __init__(self, processes: Processes, clock: Callable[[], float] = boottime) -> None:
        self.processes = processes
        self._clock = clock
        self.crews: dict[str, Crew] | None = None
        self._news: dict[str, list[tuple[str, str]]] = {}
        self._told = LastTold()

    def forget(self) -> None:
        """Forget what is known about processes. Call this when the coordinator takes the lead, because another
        coordinator may have led in the meantime.
        """
        self.crews = None
        self._told.keep(lambda job: False)

    def turn(self, coordinator: Staffed) -> None:
        """Start and end processes to meet the jobs' needs. Events that can't be stored now are stored in a later turn.
        An error that concerns only one job is recorded, not raised.

        Raises:
            StoreUnavailableError: the store isn't available.
            NotLeadingError: another coordinator leads.
        """
        if self.crews is None:
            self.crews = self._found()
        for demand in coordinator.demands(self.crews.keys()):
            try:
                with coordinator.isolated(demand.job, _TROUBLE):
                    self._serve(coordinator, demand, self.crews)
                self._told.over(demand.job)
            except (StoreUnavailableError, NotLeadingError):
                raise
            except Exception as error:  # of a job that isn't served any more
                if self._told.is_new(str(error), demand.job):
                    log.exception(f"{_TROUBLE}; it is tried again", job=demand.job)
        self._told.keep(self.crews.__contains__)

    def _found(self) -> dict[str, Crew]:
        now, crews = self._clock(), {}
        for job, lives in self.processes.found().items():
            crew = Crew(dead=frozenset(execution for execution, alive in lives.items() if not alive))
            for execution in (execution for execution, alive in lives.items() if alive):
                crew, _ = launch_policy.joined(crew, execution, now)
            crews[job] = crew
        return crews

    def _serve(self, coordinator: Staffed, demand: Demand, crews: dict[str, Crew]) -> None:
        job, now = demand.job, self._clock()
        crew = crews.get(job, Crew())
        ended = {member.execution: self.processes.ended(job, member.execution) for member in crew.members}
        plan = launch_policy.step(crew, demand, {who: how for who, how in ended.items() if how is not None}, now)
        news = [*self._news.get(job, []), *plan.news]
        failed: dict[str, Exception] = {}
        told = [execution for execution in plan.end if _done(self.processes.end, job, execution, failed)]
        killed = [execution for execution in plan.kill if _done(self.processes.kill, job, execution, failed)]
        news += [(f"told container process {execution} to end", "") for execution in told]
        news += [(f"killed container process {execution}", "it didn't end in time") for execution in killed]
        crew = launch_policy.undone(plan.crew, crew, failed)
        try:
            for member in crew.members:
                self.processes.trim(job, member.execution)
            for _ in range(plan.start):
                execution = self.processes.start(job)
                crew, again = launch_policy.joined(crew, execution, now)
                what = f"{'restarted' if again else 'started'} a container, process {execution}"
                news.append((what, f"its log: {self.processes.log_of(job, execution)}"))
        finally:  # even after an error, the processes that were started are known
            crews[job] = crew
            self._news[job] = news[-_MOST_NEWS:]
        logs_in = encodable(str(self.processes.folder / job))
        coordinator.launched(job, launch_policy.shown(crew, demand, logs_in), self._news[job])
        del self._news[job]
        for error in failed.values():
            raise error
        if demand.over and not crew.members:
            del crews[job]


def _done(do: Callable[[str, str], None], job: str, execution: str, failed: dict[str, Exception]) -> bool:
    """Call ``do`` for a process. Returns whether the call succeeded. If the call fails, its error is added to
    ``failed``.
    """
    try:
        do(job, execution)
    except Exception as error:
        failed[execution] = error
        return False
    return True
