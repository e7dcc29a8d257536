"""What a store deletes over time: old events, and code that is no longer needed."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from anabranch.coordinator.store.tables import artifacts, deployments, events, jobs, lanes
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


def sweep(connection: sa.Connection, keep_events: int, versions: int, unused: Collection[str]) -> SweepResult:
    """Delete old events and unused code.

    Args:
        keep_events: how many of each job's newest events are kept.
        versions: the number of each job's last deployments whose code is kept.
        unused: the code that was unused at the previous sweep. Only this code is deleted, if it is still unused: newer
            code may be unused only because its deployment hasn't been stored yet.
    """
    names = list(connection.execute(sa.select(jobs.c.name)).scalars())
    removed = sum(_forget_events(connection, job, keep_events) for job in names)
    used: set[str] = set()
    for job in names:
        last = sa.select(deployments.c.program).where(deployments.c.job == job)
        programs = connection.execute(last.order_by(deployments.c.id.desc()).limit(versions)).scalars()
        used |= {decode(program, Program).artifact for program in programs if program is not None}
    used |= {decode(program, Program).artifact for program in connection.execute(_of_open_lanes()).scalars()}
    present = frozenset(connection.execute(sa.select(artifacts.c.sha256)).scalars()) - used
    gone = present & frozenset(unused)
    if gone:
        connection.execute(sa.delete(artifacts).where(artifacts.c.sha256.in_(gone)))
    return SweepResult(removed, gone, present - gone)


def _forget_events(connection: sa.Connection, job: str, keep: int) -> int:
    its = events.c.job == job
    oldest = sa.select(events.c.id).where(its).order_by(events.c.id.desc()).limit(1).offset(keep - 1)
    first = connection.execute(oldest).scalar()
    if first is None:
        return 0
    return connection.execute(sa.delete(events).where(its, events.c.id < first)).rowcount


def _of_open_lanes() -> sa.Select[Any]:
    """The programs of deployments whose lanes aren't all closed: only their code can close these lanes."""
    is_open = sa.and_(
        lanes.c.job == deployments.c.job,
        lanes.c.deployment == deployments.c.id,
        lanes.c.state != LaneState.CLOSED.value,
    )
    return sa.select(deployments.c.program).where(deployments.c.program.is_not(None), sa.exists().where(is_open))
