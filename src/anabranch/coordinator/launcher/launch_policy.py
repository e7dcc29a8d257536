"""Decides for a job how many processes to start, which processes to end, and when to give up."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from anabranch.errors import ConflictError
from anabranch.protocol.status import LaunchStatus

__all__ = ["Crew", "Demand", "Member", "Plan", "ProcessEnd", "joined", "shown", "step", "undone"]

LIMIT = 8
"""The number of failures in a row after which the launcher gives up."""
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
RUNS_WELL = 60.0
"""How many seconds a process must stay alive, after the coordinator first heard from it, to show that the job's code
can run."""
COMES_WITHIN = 600.0
ENDS_WITHIN = 75.0
"""How many seconds a container has to end after a signal. (Containers promise to end within 60 seconds.)"""
SURPLUS_FOR = 10.0
SPARE_AFTER = 30.0
"""How many seconds the launcher waits before it starts processes that would only stand by. Without this wait, they
would compete for cores with a change or a failover. The wait begins when the processes that the change or the failover
needs are ready.
"""
READY_WITHIN = 120.0
"""The longest time, in seconds, that the launcher waits for the processes that a change or a failover needs before
``SPARE_AFTER`` begins to count. If the needed processes hang, others must be able to take over.
"""

_NO_FAILURE = (0, ConflictError.exit_code)
"""Exit codes that don't count as failures: the container returned its seat, or was expelled."""


@dataclass(frozen=True, kw_only=True)
class Demand:
    """How many processes a job needs, and which processes the coordinator has heard from. Processes are named by their
    EXECUTION_ENV_CONTAINER_IDs, and times are on the coordinator's clock.

    Args:
        wanted: how many processes the job needs; 0 if none should be started.
        spare: how many of these processes only stand by.
        busy: whether a change is under way, or lanes of a running job are being started. While ``busy`` is true,
            the start of processes that would only stand by is put off for ``SPARE_AFTER`` seconds.
        preparing: whether a change or a failover waits for processes that are starting or warming up. During this wait,
            no process is started that would only stand by.
        over: whether all existing processes must end.
        begun: when the coordinator began to serve the deployment, or told the launcher to try again.
        sure_from: when the coordinator can be sure which processes are alive. Nothing is started before this time.
        holders: the processes that hold seats.
        standing_by: the processes that have no seat, but have asked for a seat within the last lease time.
        waiting: the processes that have reported, within the last lease time, that they are waiting for task slots of
            a Spark cluster.
        returning: the processes that began to replace themselves at most ``COMES_WITHIN`` seconds ago, each with the
            time at which it began.
    """

    job: str
    wanted: int
    spare: int = 0
    busy: bool = False
    preparing: bool = False
    over: bool = False
    begun: float = 0.0
    sure_from: float = 0.0
    holders: frozenset[str] = frozenset()
    standing_by: frozenset[str] = frozenset()
    waiting: frozenset[str] = frozenset()
    returning: Mapping[str, float] = field(default_factory=dict)

    @property
    def heard(self) -> frozenset[str]:
        return self.holders | self.standing_by

    @property
    def alive(self) -> frozenset[str]:
        return self.heard | self.waiting | self.returning.keys()


@dataclass(frozen=True, kw_only=True)
class Member:
    """A live process on this machine. Times are on the coordinator's clock."""

    execution: str
    started: float
    came: float | None = None
    """When the coordinator first heard from the process."""
    idle: float | None = None
    """The time since which the process has had nothing to do; None if the process has work. A process without work
    should end on its own.
    """
    told: float | None = None
    """When the process was told to end."""
    killed: bool = False


@dataclass(frozen=True)
class ProcessEnd:
    """How a process ended. ``code`` is the exit code, or the negated number of the signal that ended the process. If
    the exit code is unknown, or if the process couldn't be started, ``code`` is None. ``said`` is the reason: the last
    error in the process's log, or the log's last lines, or why the process couldn't be started.
    """

    code: int | None
    said: str = ""

    @property
    def short(self) -> str:
        if self.code is None:
            return "its exit code isn't known"
        return f"exit code {self.code}" if self.code >= 0 else f"signal {-self.code}"

    @property
    def how(self) -> str:
        return f"{self.short}: {self.said}" if self.said and self.code != 0 else self.short


@dataclass(frozen=True, kw_only=True)
class Crew:
    """A job's processes on this machine, and the history of starting them."""

    members: tuple[Member, ...] = ()
    dead: frozenset[str] = frozenset()
    """The processes that have ended, although the coordinator may still count them as alive."""
    begun: float = 0.0
    """``begun`` in the last :class:`Demand`."""
    failures: int = 0
    """The number of failures in a row, as counted by :func:`_failed`."""
    failed_at: float = -math.inf
    reason: str = ""
    """Why the last process failed."""
    gave_up: bool = False
    owed: int = 0
    """How many processes have ended and haven't been replaced."""
    surplus_since: float | None = None
    """The time since which there have been more processes than needed."""
    preparing_since: float | None = None
    """The time since which a change or a failover has been waiting for processes that it needs."""
    short_since: float | None = None
    """The time from which ``SPARE_AFTER`` counts: when the shortage of processes began or, if later, when the processes
    that a change or a failover needs were ready.
    """

    @property
    def paused_until(self) -> float:
        return self.failed_at + min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (self.failures - 1)) if self.failures else 0.0


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What the launcher should do now.

    Args:
        crew: the crew after the plan has been carried out. If some processes couldn't be ended, correct this crew with
            :func:`undone`.
        news: what happened and why, as pairs of strings for events.
    """

    crew: Crew
    start: int = 0
    end: tuple[str, ...] = ()
    kill: tuple[str, ...] = ()
    news: tuple[tuple[str, str], ...] = ()


def joined(crew: Crew, execution: str, now: float) -> tuple[Crew, bool]:
    """The crew with a newly started process, and whether this process replaces a process that has ended."""
    members = (*crew.members, Member(execution=execution, started=now))
    return replace(crew, members=members, owed=max(0, crew.owed - 1)), crew.owed > 0


def undone(crew: Crew, former: Crew, executions: Collection[str]) -> Crew:
    """The crew, corrected for the processes ``executions``, which the launcher failed to signal. The attributes
    ``told`` and ``killed`` of these processes are set back to their values in ``former``, so that the next step tries
    again.
    """
    marks = {member.execution: (member.told, member.killed) for member in former.members}
    members = (
        replace(m, told=marks[m.execution][0], killed=marks[m.execution][1]) if m.execution in executions else m
        for m in crew.members
    )
    return replace(crew, members=tuple(members))


def shown(crew: Crew, demand: Demand, logs: str) -> LaunchStatus:
    """The crew as shown by ``status``."""
    return LaunchStatus(
        wanted=demand.wanted,
        running=sum(map(_counts, crew.members)) + len(_others(crew, demand)),
        failures=crew.failures,
        reason=crew.reason,
        gave_up=crew.gave_up,
        logs=logs,
    )


def step(crew: Crew, demand: Demand, ended: Mapping[str, ProcessEnd], now: float) -> Plan:
    """What the launcher should do next for a job. The result contains the crew for the next call.

    Spark takes time to start. So a process counts as running even before the coordinator first hears from it, and also
    while the process replaces itself. A process no longer counts once it has been told to end, or once it should end on
    its own. A process should end on its own if all processes must end, or if the coordinator no longer hears from the
    process.

    Args:
        crew: the crew that the last call returned, with the processes that were started since then (see
            :func:`joined`).
        ended: the processes that have ended since the last call, each with a description of its end.
        now: the current time, on the coordinator's clock.
    """
    if demand.begun != crew.begun:
        crew = replace(crew, begun=demand.begun, failures=0, failed_at=-math.inf, reason="", gave_up=False)
    gave_up = crew.gave_up
    crew, news = _without(crew, demand, ended, now)
    crew = replace(crew, members=tuple(_heard(member, demand, now) for member in crew.members))
    if any(_runs_well(member, crew, now) for member in crew.members):
        crew = replace(crew, failures=0, failed_at=-math.inf, reason="")
    late = [member for member in crew.members if _never_came(member, now)]
    for member in late if demand.wanted else ():
        crew = _failed(crew, member.started, f"it didn't ask for a seat within {COMES_WITHIN:g} s", now)
    if crew.failures >= LIMIT and not gave_up:
        crew = replace(crew, gave_up=True)
        news.append((f"gave up starting containers after {crew.failures} failures in a row", crew.reason))
    there = [member for member in crew.members if _counts(member)]
    missing = demand.wanted - len(there) - len(_others(crew, demand))
    sure = now >= demand.sure_from
    crew, wait = _postponed(crew, demand, missing, now)
    start = max(0, missing - wait) if sure and not crew.gave_up and now >= crew.paused_until else 0
    crew, surplus = _surplus(crew, demand, there, -missing if sure and demand.wanted else 0, now)
    idle = [member for member in crew.members if member.idle is not None and now - member.idle >= ENDS_WITHIN]
    end = {member.execution for member in (*late, *surplus, *idle) if member.told is None}
    kill = {m.execution for m in crew.members if m.told is not None and now - m.told >= ENDS_WITHIN and not m.killed}
    members = tuple(
        replace(m, told=now if m.execution in end else m.told, killed=m.killed or m.execution in kill)
        for m in crew.members
    )
    return Plan(
        crew=replace(crew, members=members),
        start=start,
        end=tuple(sorted(end)),
        kill=tuple(sorted(kill)),
        news=tuple(news),
    )


def _without(
    crew: Crew, demand: Demand, ended: Mapping[str, ProcessEnd], now: float
) -> tuple[Crew, list[tuple[str, str]]]:
    news = []
    for member in crew.members:
        if (how := ended.get(member.execution)) is None:
            continue
        news.append((f"container process {member.execution} ended", how.how if demand.wanted else how.short))
        crew = replace(crew, owed=crew.owed + 1)
        if demand.wanted and _is_failure(member, how):
            crew = _failed(crew, member.started, how.how, now)
    left = tuple(member for member in crew.members if member.execution not in ended)
    if not demand.wanted:
        crew = replace(crew, owed=0)
    return replace(crew, members=left, dead=(crew.dead | set(ended)) & demand.alive), news


def _is_failure(member: Member, how: ProcessEnd) -> bool:
    if member.told is not None or (member.idle is not None and how.code is None):
        return False
    return member.came is None or how.code not in _NO_FAILURE


def _failed(crew: Crew, started: float, reason: str, now: float) -> Crew:
    """Count the failure of a process. If the process was started before the last counted failure, only the reason is
    recorded.
    """
    if started <= crew.failed_at:
        return replace(crew, reason=reason)
    return replace(crew, failures=crew.failures + 1, failed_at=now, reason=reason)


def _heard(member: Member, demand: Demand, now: float) -> Member:
    heard = member.execution in demand.heard
    if member.execution in demand.waiting:
        member = replace(member, started=now, came=None)  # how long this takes says nothing about the process
    if not heard and member.execution in demand.returning:
        member = replace(member, started=demand.returning[member.execution], came=None)  # Spark is starting again
    came = now if member.came is None and heard else member.came
    useless = demand.over or (came is not None and not heard)
    idle = (now if member.idle is None else member.idle) if useless else None
    return replace(member, came=came, idle=idle)


def _others(crew: Crew, demand: Demand) -> frozenset[str]:
    """The live processes that weren't started by this launcher."""
    return demand.alive - {member.execution for member in crew.members} - crew.dead


def _counts(member: Member) -> bool:
    return member.idle is None and member.told is None


def _runs_well(member: Member, crew: Crew, now: float) -> bool:
    lasted = member.came is not None and now - member.came >= RUNS_WELL
    return lasted and member.started > crew.failed_at and _counts(member)


def _never_came(member: Member, now: float) -> bool:
    return member.came is None and member.told is None and now - member.started >= COMES_WITHIN


def _postponed(crew: Crew, demand: Demand, missing: int, now: float) -> tuple[Crew, int]:
    """The crew, and the number of missing processes to start later because they would only stand by."""
    preparing = (now if crew.preparing_since is None else crew.preparing_since) if demand.preparing else None
    begins = crew.short_since is None or (preparing is not None and now - preparing < READY_WITHIN)
    since = None if missing <= 0 else now if begins else crew.short_since
    waits = demand.busy and since is not None and now - since < SPARE_AFTER
    return replace(crew, preparing_since=preparing, short_since=since), demand.spare if waits else 0


def _surplus(crew: Crew, demand: Demand, there: list[Member], count: int, now: float) -> tuple[Crew, list[Member]]:
    """The crew and the processes to end. If there have been too many processes for ``SURPLUS_FOR`` seconds, the newest
    of the processes that stand by are to end. Otherwise, no process is to end.
    """
    since = None if count <= 0 else now if crew.surplus_since is None else crew.surplus_since
    crew = replace(crew, surplus_since=since)
    if since is None or now - since < SURPLUS_FOR:
        return crew, []
    without_seat = (demand.standing_by | demand.waiting) - demand.holders
    resting = [member for member in there if member.execution in without_seat]
    return crew, sorted(resting, key=lambda member: member.started, reverse=True)[:count]
