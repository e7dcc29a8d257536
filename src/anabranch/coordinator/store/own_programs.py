"""The stored programs of jobs that run in one process with their coordinator. The code of such a job can change with
each start. So a new program replaces the stored program, and the replaced code is deleted at once.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import sqlalchemy as sa

from anabranch.coordinator.store import uploads
from anabranch.coordinator.store.tables import artifacts, deployments
from anabranch.model.document import decode, encode
from anabranch.planning import fingerprints
from anabranch.protocol.deployment import Program

__all__ = ["encoded", "put", "renew"]


def encoded(program: Program | None) -> str | None:
    """A program as it is stored."""
    return None if program is None else encode(program).decode()


def put(connection: sa.Connection, job: str, deployment: int, program: Program | None) -> None:
    """Replace the program of a deployment."""
    its = sa.and_(deployments.c.job == job, deployments.c.id == deployment)
    before = connection.execute(sa.select(deployments.c.program).where(its)).scalar()
    text = encoded(program)
    connection.execute(sa.update(deployments).where(its).values(program=text))
    if program is not None:
        uploads.finish(connection, [program.artifact])
    if before is not None and before != text:
        _forget(connection, decode(before, Program))


def renew(connection: sa.Connection, job: str, fingerprint: Mapping[str, str], own: Program) -> None:
    """Store ``own``, the program of one deployment, for all deployments of the job that differ from this deployment
    only in the bodies of functions. The program's code can then close the lanes of these deployments, too. Only
    programs that are ``in_process`` are replaced. If ``own.lacks`` isn't empty, nothing is stored.

    Args:
        fingerprint: the fingerprint of the deployment to which ``own`` belongs.
    """
    if own.lacks:
        return
    columns = deployments.c.id, deployments.c.program, deployments.c.fingerprint
    query = sa.select(*columns).where(deployments.c.job == job, deployments.c.program.is_not(None))
    for number, stored, text in connection.execute(query).all():
        alike = fingerprints.alike(msgspec.json.decode(text), fingerprint)
        if alike and decode(stored, Program).in_process:
            put(connection, job, number, own)


def _forget(connection: sa.Connection, replaced: Program) -> None:
    """Delete the code of a replaced program that was ``in_process``, unless a deployment still has this code, or will
    have it."""
    if not (replaced.in_process and replaced.artifact) or replaced.artifact in uploads.pending(connection):
        return
    users = sa.select(deployments.c.id).where(deployments.c.program.contains(replaced.artifact))
    if connection.execute(users).first() is None:
        connection.execute(sa.delete(artifacts).where(artifacts.c.sha256 == replaced.artifact))
