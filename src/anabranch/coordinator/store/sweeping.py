"""What a store deletes over time: old events, and code that no deployment needs any more."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import sqlalchemy as sa

from anabranch.coordinator.store.tables import artifacts, deployments, events, jobs
from anabranch.model.document import decode
from anabranch.protocol.deployment import Program

__all__ = ["SweepResult", "sweep"]


@dataclass(frozen=True)
class SweepResult:
    """``events``: how many were removed. ``artifacts``: the code that was removed. ``unused``: code that is still
    stored, although none of the last deployments uses it.
    """

    events: int = 0
    artifacts: frozenset[str] = frozenset()
    unused: frozenset[str] = frozenset()


def sweep(connection: sa.Connection, keep_events: int, versions: int, unused: Collection[str]) -> SweepResult:
    """Remove everything that is older than what should be kept.

    Args:
        keep_events: how many of each job's newest events to keep.
        versions: for how many of each job's last deployments to keep the code.
        unused: code that was unused at the previous sweep. Only this code is removed, if it is still unused, because
            code is stored before the deployment that uses it.
    """
    names = list(connection.execute(sa.select(jobs.c.name)).scalars())
    removed = sum(_forget_events(connection, job, keep_events) for job in names)
    used: set[str] = set()
    for job in names:
        last = sa.select(deployments.c.program).where(deployments.c.job == job)
        programs = connection.execute(last.order_by(deployments.c.id.desc()).limit(versions)).scalars()
        used |= {decode(program, Program).artifact for program in programs if program is not None}
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
