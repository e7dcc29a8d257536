"""What a store deletes over time: old events, and code that is no longer needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

import msgspec
import sqlalchemy as sa

from anabranch.coordinator.store import lookups, uploads
from anabranch.coordinator.store.tables import artifacts, deployments, events, jobs, lanes
from anabranch.errors import UnsupportedFormatError
from anabranch.model.document import decode
from anabranch.model.lane import LaneState
from anabranch.protocol.deployment import Program

__all__ = ["SweepResult", "sweep"]

_is_open = sa.and_(
    lanes.c.job == deployments.c.job,
    lanes.c.deployment == deployments.c.id,
    lanes.c.state != LaneState.CLOSED.value,
)
"""A condition for queries of deployments: the deployment has a lane that isn't closed. To close this lane, the
deployment's code is needed.
"""


@dataclass(frozen=True)
class SweepResult:
    """What a sweep has deleted."""

    events: int = 0
    """How many events were deleted."""
    artifacts: frozenset[str] = frozenset()
    """The code that was deleted."""
    unused: Mapping[str, str] = field(default_factory=dict)
    """The code that is still stored although no job needs it, with the ids of uploads whose deployments aren't stored
    yet ('' if there is no such upload)."""
    unread: Mapping[str, str] = field(default_factory=dict)
    """The jobs with a program that can't be read, and why. If there are such jobs, it isn't known which code is needed,
    so no code was deleted, and ``unused`` is empty."""


def sweep(
    writing: Callable[[], AbstractContextManager[sa.Connection]],
    keep_events: int,
    versions: int,
    unused: Mapping[str, str],
) -> SweepResult:
    """Delete old events, in one transaction for each job, and then unused code.

    Args:
        writing: returns a transaction.
        keep_events: how many of each job's newest events are kept.
        versions: how many of each job's newest versions keep their code. Versions with the same code count as one. The
            code to which the job can return at once is kept in any case.
        unused: :attr:`SweepResult.unused` of the previous sweep. Code is deleted only if it was unused then, is still
            unused, and hasn't been stored again meanwhile. This spares code whose deployment hasn't been stored yet.
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
        pending = uploads.pending(connection)
        present = frozenset(connection.execute(sa.select(artifacts.c.sha256)).scalars()) - used
        unused_now = {sha256: pending.get(sha256, "") for sha256 in present}
        gone = frozenset(sha256 for sha256, upload in unused_now.items() if unused.get(sha256) == upload)
        if gone:
            connection.execute(sa.delete(artifacts).where(artifacts.c.sha256.in_(gone)))
            uploads.finish(connection, gone)
    return SweepResult(removed, gone, {sha256: unused_now[sha256] for sha256 in present - gone})


def _used(connection: sa.Connection, versions: int) -> tuple[set[str], dict[str, str]]:
    """Two results: the code that is needed, and the jobs with a program that can't be read, each with the reason."""
    used: set[str] = set()
    unread = {}
    for job in connection.execute(sa.select(jobs.c.name)).scalars().all():
        try:
            used |= _newest(connection, job, versions) | _required(connection, job)
        except (UnsupportedFormatError, msgspec.DecodeError) as error:
            unread[job] = str(error)
    return used, unread


def _newest(connection: sa.Connection, job: str, count: int) -> set[str]:
    """The newest code of a job: at most ``count`` artifacts."""
    query = sa.select(deployments.c.program).where(deployments.c.job == job, deployments.c.program.is_not(None))
    newest_first = query.group_by(deployments.c.program).order_by(sa.func.max(deployments.c.id).desc())
    found: set[str] = set()
    for program in connection.execute(newest_first).scalars().all():
        found |= {decode(program, Program).artifact} - {""}
        if len(found) == count:
            break
    return found


def _required(connection: sa.Connection, job: str) -> set[str]:
    """The code that a job needs in any case. The job needs the code of its present version, and the code with which its
    open lanes can be closed. It also needs the code of each version to which it can return at once: the version before
    the present one and, if a change can be undone, the version that the change replaces.
    """
    last = connection.execute(sa.select(sa.func.max(deployments.c.id)).where(deployments.c.job == job)).scalar_one()
    present, replaced = (lookups.version_of(connection, job, number) for number in (last, last - 1))
    former = lookups.version_of(connection, job, present - 1)
    its = sa.or_(deployments.c.id.in_([present, replaced, former]), sa.exists().where(_is_open))
    query = sa.select(deployments.c.program).where(deployments.c.job == job, deployments.c.program.is_not(None), its)
    return {decode(program, Program).artifact for program in connection.execute(query).scalars().all()}


def _forget_events(connection: sa.Connection, job: str, keep: int) -> int:
    its = events.c.job == job
    oldest = sa.select(events.c.id).where(its).order_by(events.c.id.desc()).limit(1).offset(keep - 1)
    first = connection.execute(oldest).scalar()
    if first is None:
        return 0
    return connection.execute(sa.delete(events).where(its, events.c.id < first)).rowcount
