"""The launcher: keeps the containers of jobs running, as processes on the coordinator's machine."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from anabranch import logs
from anabranch.clocks import boottime
from anabranch.coordinator.launcher import launch_policy
from anabranch.coordinator.launcher.launch_policy import Crew, Demand
from anabranch.coordinator.launcher.processes import Processes
from anabranch.errors import NotLeadingError, StoreUnavailableError
from anabranch.protocol.status import LaunchStatus
from anabranch.throttle import LastTold

__all__ = ["Launcher", "Staffed"]

_MOST_NEWS = 100
"""The maximum number of a job's events that are kept while they can't be stored."""

log = logs.get_logger()


class Staffed(Protocol):
    """What a launcher needs from the coordinator."""

    def demands(self, jobs: Collection[str]) -> list[Demand]: ...

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
        """Forget what is known about processes, because another coordinator may have led in the meantime."""
        self.crews = None

    def turn(self, coordinator: Staffed) -> None:
        """Start and end processes to meet the jobs' needs. Events that can't be stored now are stored in a later turn.
        An error that concerns only one job is logged if it is new, not raised.

        Raises:
            StoreUnavailableError: the store isn't available.
            NotLeadingError: another coordinator leads.
        """
        if self.crews is None:
            self.crews = self._found()
        for demand in coordinator.demands(self.crews.keys()):
            try:
                self._serve(coordinator, demand, self.crews)
                self._told.over(demand.job)
            except (StoreUnavailableError, NotLeadingError):
                raise
            except Exception as error:
                if self._told.is_new(str(error), demand.job):
                    log.exception("a job's containers can't be seen to; it is tried again", job=demand.job)

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
        crew = plan.crew
        try:
            for execution in plan.end:
                self.processes.end(job, execution)
            for execution in plan.kill:
                self.processes.kill(job, execution)
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
        coordinator.launched(job, launch_policy.shown(crew, demand, str(self.processes.folder / job)), self._news[job])
        del self._news[job]
        if demand.over and not crew.members:
            del crews[job]
