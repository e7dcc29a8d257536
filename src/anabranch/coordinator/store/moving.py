"""Exports all rows of one job from a store, and imports them into another store of the same format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from anabranch.coordinator.store.tables import artifacts, containers, deployments, events, jobs, lanes, models
from anabranch.errors import ConflictError, NotFoundError
from anabranch.model.document import decode
from anabranch.protocol.deployment import Program

__all__ = ["JobRows", "add", "of_job"]

JobRows = Mapping[str, Sequence[Mapping[str, Any]]]
"""Rows by table, in an order in which they can be inserted."""

_OF_JOBS = (deployments, models, lanes, containers, events)


def of_job(connection: sa.Connection, job: str) -> JobRows:
    """The rows of a job at one moment, with the stored code of its deployments. The transaction must be a new one.

    Raises:
        NotFoundError: the store doesn't know the job.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(sa.text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"))
    its = _rows(connection, jobs, jobs.c.name == job)
    if not its:
        raise NotFoundError(f"there is no job {job!r} in this store", "see the jobs there are with `anabranch jobs`")
    found = {jobs.name: its} | {table.name: _rows(connection, table, table.c.job == job) for table in _OF_JOBS}
    code = {decode(row["program"], Program).artifact for row in found["deployments"] if row["program"] is not None}
    return {**found, artifacts.name: _rows(connection, artifacts, artifacts.c.sha256.in_(code))}


def add(connection: sa.Connection, job: str, rows: JobRows) -> None:
    """Add a job that the store doesn't know.

    Raises:
        ConflictError: the store already knows the job.
    """
    if connection.execute(sa.select(jobs.c.name).where(jobs.c.name == job)).first() is not None:
        raise ConflictError(
            f"this store has a job {job!r} already",
            f"name another one in [coordinator] store, or see `anabranch status {job}`; nothing was changed",
        )
    known = set(connection.execute(sa.select(artifacts.c.sha256)).scalars())
    for table in (jobs, *_OF_JOBS, artifacts):
        new = [{**row} for row in rows[table.name] if table is not artifacts or row["sha256"] not in known]
        if new:
            connection.execute(sa.insert(table), new)


def _rows(connection: sa.Connection, table: sa.Table, its: sa.ColumnElement[bool]) -> list[dict[str, Any]]:
    """The rows of a table for which ``its`` is true, in the order of their keys. Events come without their ids, because
    each store gives its own ids to events.
    """
    query = sa.select(table).where(its).order_by(*table.primary_key)
    columns = [column.name for column in table.c if column is not events.c.id]
    return [{name: row[name] for name in columns} for row in connection.execute(query).mappings()]
