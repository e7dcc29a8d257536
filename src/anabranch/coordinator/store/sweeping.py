"""What a store deletes over time: old events, and code that is no longer needed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from anabranch.coordinator.store.tables import artifacts, deployments, events, jobs, lanes
from anabranch.errors import UnsupportedFormatError
from anabranch.model.document import decode
from anabranch.model.lane import LaneState
from anabranch.protocol.deployment import Program

__all__ = ["SweepResult", "sweep"]


@dataclass(frozen=True)
class SweepResult:
    """What a sweep has deleted."""

    events: int = 0
    """How many events were deleted."""
    artifacts: frozenset[str] = frozenset()
    """The code that was deleted."""
    unused: frozenset[str] = frozenset()
    """The code that is still stored although none of the last deployments uses it."""
    unread: Mapping[str, str] = field(default_factory=dict)
    """The jobs with a program that can't be read, and why. If there are any, it isn't known which code is needed, so
    none was deleted, and ``unused`` is empty."""


def sweep(
    writing: Callable[[], AbstractContextManager[sa.Connection]],
    keep_events: int,
    versions: int,
    unused: Collection[str],
) -> SweepResult:
    """Delete old events, in one transaction for each job, and then unused code.

    Args:
        writing: returns a transaction.
        keep_events: how many of each job's newest events are kept.
        versions: the number of each job's last deployments whose code is kept.
        unused: the code that was unused at the previous sweep. Only this code is deleted, if it is still unused: newer
            code may be unused only because its deployment hasn't been stored yet.
    """
    with writing() as connection:
        names = list(connection.execute(sa.select(jobs.c.name)).scalars())
    removed = 0
    for job in names:
        with writing() as connection:
            removed += _forget_events(connection, job, keep_events)
    with writing() as connection:
        used, unread = _used(connection, versions)
        if unread:
            return SweepResult(removed, unread=unread)
        present = frozenset(connection.execute(sa.select(artifacts.c.sha256)).scalars()) - used
        gone = present & frozenset(unused)
        if gone:
            connection.execute(sa.delete(artifacts).where(artifacts.c.sha256.in_(gone)))
    return SweepResult(removed, gone, present - gone)


def _used(connection: sa.Connection, versions: int) -> tuple[set[str], dict[str, str]]:
    """The code that is needed, and the jobs with a program that can't be read, with the reasons."""
    programs = list(connection.execute(_of_open_lanes()))
    for job in connection.execute(sa.select(jobs.c.name)).scalars().all():
        last = sa.select(deployments.c.job, deployments.c.program).where(deployments.c.job == job)
        programs += connection.execute(last.order_by(deployments.c.id.desc()).limit(versions))
    used, unread = set(), {}
    for job, program in programs:
        try:
            if program is not None:
                used.add(decode(program, Program).artifact)
        except UnsupportedFormatError as error:
            unread[job] = str(error)
    return used, unread


def _forget_events(connection: sa.Connection, job: str, keep: int) -> int:
    its = events.c.job == job
    oldest = sa.select(events.c.id).where(its).order_by(events.c.id.desc()).limit(1).offset(keep - 1)
    first = connection.execute(oldest).scalar()
    if first is None:
        return 0
    return connection.execute(sa.delete(events).where(its, events.c.id < first)).rowcount


def _of_open_lanes() -> sa.Select[Any]:
    """The jobs and programs of deployments whose lanes aren't all closed: only their code can close these lanes."""
    is_open = sa.and_(
        lanes.c.job == deployments.c.job,
        lanes.c.deployment == deployments.c.id,
        lanes.c.state != LaneState.CLOSED.value,
    )
    found = sa.select(deployments.c.job, deployments.c.program)
    return found.where(deployments.c.program.is_not(None), sa.exists().where(is_open))
