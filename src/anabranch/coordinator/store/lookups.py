"""Queries of the store's tables."""

from __future__ import annotations

import msgspec
import sqlalchemy as sa

from anabranch.coordinator.store.records import ChangeStep, ContainerRecord, DeploymentRecord, Event, EventRange
from anabranch.coordinator.store.tables import artifacts, containers, deployments, events, jobs, models
from anabranch.coordinator.store.tables import lanes as lanes_table
from anabranch.formats import Format
from anabranch.model.deployment_state import DeploymentState
from anabranch.model.document import decode
from anabranch.model.graph import Graph
from anabranch.model.job_model import JobModel
from anabranch.model.lane import Lane
from anabranch.protocol.container import Registration
from anabranch.protocol.deployment import Program
from anabranch.protocol.drain import DrainProgress

__all__ = [
    "artifact",
    "deployment",
    "deployment_numbers",
    "events_of",
    "former",
    "graph",
    "has_request",
    "lane_states",
    "lanes",
    "last_state",
    "lost",
    "model",
    "present",
    "revisions",
    "version_of",
]


def artifact(connection: sa.Connection, sha256: str) -> bytes | None:
    """The code with the hash ``sha256``; None if the store doesn't have it."""
    return connection.execute(sa.select(artifacts.c.content).where(artifacts.c.sha256 == sha256)).scalar()


def deployment(connection: sa.Connection, job: str, number: int | None) -> DeploymentRecord | None:
    """A deployment of a job; without a number, the last one. None if there is no such deployment."""
    columns = [column for column in deployments.c if column.name != "graph"]
    query = sa.select(*columns, _generation())
    its = query.where(deployments.c.job == job, deployments.c.id == number if number else sa.true())
    row = connection.execute(its.order_by(deployments.c.id.desc()).limit(1)).mappings().first()
    if row is None:
        return None
    documents = {name: msgspec.json.decode(row[name]) for name in ("fingerprint", "promises", "formats")}
    documents["formats"] = {stream: Format.from_builtins(each) for stream, each in documents["formats"].items()}
    stored = None if row["program"] is None else decode(row["program"], Program)
    alone = stored is not None and stored.in_process
    programs = {"program": None if alone else stored, "own_program": stored if alone else None}
    drain = None if row["drain"] is None else decode(row["drain"], DrainProgress)
    state = DeploymentState(row["state"])
    return DeploymentRecord(**{**row, **documents, **programs, "state": state, "drain": drain})


def last_state(connection: sa.Connection, job: str) -> tuple[int, int, DeploymentState] | None:
    """The number, the generation and the state of a job's last deployment; None if there is no such job. Reads no
    document, so it works even if documents can't be read. A state that only newer versions know is returned as
    ``running``, because the job isn't known to have ended."""
    query = sa.select(deployments.c.id, _generation(), deployments.c.state).where(deployments.c.job == job)
    row = connection.execute(query.order_by(deployments.c.id.desc()).limit(1)).first()
    if row is None:
        return None
    return row[0], row[1], DeploymentState(row[2]) if row[2] in list(DeploymentState) else DeploymentState.RUNNING


def revisions(connection: sa.Connection) -> dict[str, tuple[object, ...]]:
    """For each job, a value that changes when something happens to the job. The query reads no documents, and it reads
    only the last deployment of each job. An outer join without a WHERE clause is used, because otherwise SQLite would
    search all deployments.
    """
    present = deployments.alias()
    last = sa.select(sa.func.max(deployments.c.id)).where(deployments.c.job == jobs.c.name).correlate(jobs)
    event = sa.select(sa.func.max(events.c.id)).where(events.c.job == jobs.c.name).correlate(jobs)
    query = sa.select(jobs.c.name, present.c.id, present.c.state, present.c.changed_at, event.scalar_subquery())
    its = sa.and_(present.c.job == jobs.c.name, present.c.id == last.scalar_subquery())
    rows = connection.execute(query.select_from(jobs.outerjoin(present, its)))
    return {row[0]: tuple(row[1:]) for row in rows if row[1] is not None}


def _generation() -> sa.Label[int]:
    """A column for queries of deployments: the number of each deployment's last generation."""
    its = sa.and_(models.c.job == deployments.c.job, models.c.deployment == deployments.c.id)
    return sa.select(sa.func.max(models.c.generation)).where(its).scalar_subquery().label("generation")


def graph(connection: sa.Connection, job: str, deployment: int) -> Graph:
    """The graph of a deployment, which must exist."""
    query = sa.select(deployments.c.graph).where(deployments.c.job == job, deployments.c.id == deployment)
    return decode(connection.execute(query).scalar_one(), Graph)


def model(connection: sa.Connection, job: str, deployment: int, generation: int) -> JobModel:
    """The model of a generation, which must exist."""
    query = _documents(job, deployment).where(models.c.generation == generation)
    return decode(connection.execute(query).scalar_one(), JobModel)


def has_request(connection: sa.Connection, job: str, deployment: int, request: str) -> bool:
    """Whether one of a deployment's generations was requested with this id."""
    text = msgspec.json.encode(request).decode()
    query = _documents(job, deployment).where(models.c.document.contains(text, autoescape=True))
    return any(
        msgspec.json.decode(found, type=_Requested).request == request for found in connection.execute(query).scalars()
    )


def version_of(connection: sa.Connection, job: str, deployment: int) -> int:
    """The first deployment that had the same version as ``deployment``. This is ``deployment`` itself if its version
    was new, or if the store doesn't have the deployment's first model.
    """
    query = _documents(job, deployment).where(models.c.generation == 1)
    document = connection.execute(query).scalar()
    return (0 if document is None else _version.decode(document).again) or deployment


class _Again(msgspec.Struct):
    """The part of a model that names the first deployment of the model's version."""

    again: int = 0


_version = msgspec.json.Decoder(_Again)


class _Requested(msgspec.Struct):
    """The part of a model that contains the request's id. Only this part is decoded, because decoding a whole model
    with many tasks takes long.
    """

    request: str = ""


def _documents(job: str, deployment: int) -> sa.Select[str]:
    return sa.select(models.c.document).where(models.c.job == job, models.c.deployment == deployment)


def deployment_numbers(connection: sa.Connection, job: str, limit: int) -> list[int]:
    """The numbers of a job's last ``limit`` deployments, newest first."""
    query = sa.select(deployments.c.id).where(deployments.c.job == job).order_by(deployments.c.id.desc())
    return list(connection.execute(query.limit(limit)).scalars())


def lane_states(connection: sa.Connection, job: str) -> dict[str, int]:
    """How many lanes of a job are in each state, across all deployments."""
    of_job = sa.select(lanes_table.c.state, sa.func.count()).where(lanes_table.c.job == job)
    return {row[0]: row[1] for row in connection.execute(of_job.group_by(lanes_table.c.state))}


def present(connection: sa.Connection, job: str) -> list[ContainerRecord]:
    """The processes that hold a job's seats according to the store. They may have ended."""
    query = sa.select(containers).where(containers.c.job == job, containers.c.gone.is_(None))
    found = [ContainerRecord(**row) for row in connection.execute(query).mappings()]
    return sorted(found, key=lambda container: (container.seat, container.epoch))


def lanes(connection: sa.Connection, *conditions: sa.ColumnElement[bool]) -> list[Lane]:
    """The lanes that meet the conditions, in the order in which they were planned."""
    order = lanes_table.c.deployment, lanes_table.c.generation, lanes_table.c.place
    query = sa.select(lanes_table.c.record).where(*conditions).order_by(*order)
    return [decode(record, Lane) for record in connection.execute(query).scalars()]


def lost(connection: sa.Connection, limit: int, *conditions: sa.ColumnElement[bool]) -> list[ContainerRecord]:
    """Up to ``limit`` processes that meet the conditions and no longer hold their seats. The process that took its seat
    last comes first.
    """
    query = sa.select(containers).where(*conditions, containers.c.gone.is_not(None))
    rows = connection.execute(query.order_by(containers.c.epoch.desc()).limit(limit)).mappings()
    return [ContainerRecord(**row) for row in rows]


def former(connection: sa.Connection, registration: Registration) -> ContainerRecord | None:
    """The record of the seat that a registering process last lost or returned in the job. None if there is no such
    seat.
    """
    names = ("job", "execution", "host", "pid", "instance")
    its = [containers.c[name] == getattr(registration, name) for name in names]
    return next(iter(lost(connection, 1, *its)), None)


def events_of(connection: sa.Connection, job: str, limit: int, wanted: EventRange) -> list[Event]:
    """The last ``limit`` matching events. If ``wanted.after`` is set, the first ``limit`` matching events are returned
    instead. The oldest event always comes first.
    """
    its = [events.c.job == job]
    if wanted.after is not None:
        its.append(events.c.id > wanted.after)
    if wanted.before is not None:
        its.append(events.c.id < wanted.before)
    if wanted.since is not None:
        its.append(events.c.at >= wanted.since)
    if wanted.until is not None:
        its.append(events.c.at < wanted.until)
    if wanted.kind:
        its.append(events.c.kind == wanted.kind)
    if wanted.lane:
        its.append(events.c.lane == wanted.lane)
    if wanted.about == "lanes":
        its.append(events.c.lane != "")
    elif wanted.about == "changes":
        its.append(events.c.change.is_not(None))
    newest_first = wanted.after is None
    order = events.c.id.desc() if newest_first else events.c.id
    rows = connection.execute(sa.select(events).where(*its).order_by(order).limit(limit)).mappings().all()
    return [_event(row) for row in (reversed(rows) if newest_first else rows)]


def _event(row: sa.RowMapping) -> Event:
    change = None if row["change"] is None else decode(row["change"], ChangeStep)
    return Event(**{**row, "change": change})
