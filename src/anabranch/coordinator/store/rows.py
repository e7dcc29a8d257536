"""Writes rows of the store's tables, in transactions that the caller has begun."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from anabranch.coordinator.store import own_programs, uploads
from anabranch.coordinator.store.records import ContainerRecord, DeploymentRecord, Event, LeaderRecord
from anabranch.coordinator.store.tables import artifacts, containers, deployments, events, jobs, lanes, leader, models
from anabranch.model.deployment_state import DeploymentState
from anabranch.model.document import compact, encode
from anabranch.model.lane import Lane
from anabranch.protocol.container import Registration
from anabranch.protocol.deployment import StartRequest
from anabranch.protocol.drain import DrainProgress

__all__ = [
    "add_container",
    "add_deployment",
    "add_events",
    "add_lanes",
    "claim_lead",
    "mark_gone",
    "move_deployment",
    "next_epoch",
    "put_artifact",
    "put_drain",
    "put_lanes",
    "put_under_epoch",
    "reset",
    "resume_deployment",
]


def _lane_row(lane: Lane) -> dict[str, Any]:
    return {
        "id": lane.id,
        "job": lane.job,
        "deployment": lane.deployment,
        "state": lane.state.value,
        "record": encode(lane).decode(),
    }


def add_lanes(connection: sa.Connection, new: Sequence[Lane], generation: int) -> None:
    """Add the ``new`` lanes of a generation, in the order in which they were planned."""
    rows = [{**_lane_row(lane), "generation": generation, "place": place} for place, lane in enumerate(new)]
    if rows:
        connection.execute(sa.insert(lanes), rows)


def add_deployment(connection: sa.Connection, start: StartRequest, state: DeploymentState, at: float) -> None:
    """Add a new deployment with its first generation and its lanes."""
    job, number, generation = start.graph.job, start.model.run_id, start.model.generation
    row = {
        "job": job,
        "id": number,
        "state": state.value,
        "graph": encode(start.graph).decode(),
        "fingerprint": msgspec.json.encode(start.fingerprint).decode(),
        "promises": msgspec.json.encode(start.promises).decode(),
        "formats": msgspec.json.encode({s: f.to_builtins() for s, f in start.formats.items()}).decode(),
        "program": own_programs.encoded(start.program or start.own_program),
        "until_caught_up": start.until_caught_up,
        "created_at": at,
        "changed_at": at,
    }
    connection.execute(sa.insert(deployments).values(**row))
    if (program := start.program or start.own_program) is not None:
        uploads.finish(connection, [program.artifact])
    document = encode(start.model).decode()
    connection.execute(sa.insert(models).values(job=job, deployment=number, generation=generation, document=document))
    add_lanes(connection, start.lanes, generation)


def next_epoch(connection: sa.Connection, job: str) -> int:
    """Raise a job's epoch. Returns the new epoch."""
    raised = sa.update(jobs).where(jobs.c.name == job).values(epoch=jobs.c.epoch + 1).returning(jobs.c.epoch)
    return int(connection.execute(raised).scalar_one())


def put_lanes(connection: sa.Connection, changed: Iterable[Lane]) -> None:
    """Replace stored lanes."""
    for lane in changed:
        row = {"state": lane.state.value, "record": encode(lane).decode()}
        connection.execute(sa.update(lanes).where(lanes.c.id == lane.id, lanes.c.job == lane.job).values(**row))


def put_under_epoch(connection: sa.Connection, changed: Iterable[Lane], epoch: int) -> list[Lane]:
    """Replace stored lanes with their ``changed`` versions, which get ``epoch``. Returns the lanes as stored."""
    stored = [msgspec.structs.replace(lane, epoch=epoch) for lane in changed]
    put_lanes(connection, stored)
    return stored


def replace_deployment(
    connection: sa.Connection, start: StartRequest, state: DeploymentState, former: DeploymentState, at: float
) -> None:
    """Add a new deployment. The deployment that it replaces gets the state ``former``."""
    move_deployment(connection, start.graph.job, start.model.replaces, state=former, error=None, at=at)
    add_deployment(connection, start, state, at)
    if start.own_program is not None:
        own_programs.renew(connection, start.graph.job, start.fingerprint, start.own_program)


def resume_deployment(
    connection: sa.Connection, deployment: DeploymentRecord, state: DeploymentState, at: float
) -> None:
    """Give a deployment another state, remove its error, and store its program and its ``until_caught_up``."""
    job, number = deployment.job, deployment.id
    move_deployment(connection, job, number, state=state, error=None, at=at)
    its = (deployments.c.job == job, deployments.c.id == number)
    connection.execute(sa.update(deployments).where(*its).values(until_caught_up=deployment.until_caught_up))
    own_programs.put(connection, job, number, deployment.any_program)
    if deployment.own_program is not None:
        own_programs.renew(connection, job, deployment.fingerprint, deployment.own_program)


def move_deployment(
    connection: sa.Connection, job: str, deployment: int, *, state: DeploymentState, error: str | None, at: float
) -> None:
    """Give a deployment another state."""
    connection.execute(
        sa.update(deployments)
        .where(deployments.c.job == job, deployments.c.id == deployment)
        .values(state=state.value, error=error, changed_at=at)
    )


def put_artifact(connection: sa.Connection, sha256: str, content: bytes) -> None:
    """Store the code of a job, if it isn't stored yet, and note that its deployment will follow."""
    query = sa.select(artifacts.c.sha256).where(artifacts.c.sha256 == sha256)
    if connection.execute(query).first() is None:
        connection.execute(sa.insert(artifacts).values(sha256=sha256, content=content))
    uploads.start(connection, sha256)


def put_drain(connection: sa.Connection, job: str, deployment: int, drain: DrainProgress | None) -> None:
    """Store the progress of a deployment's drain, or None if the deployment isn't draining."""
    connection.execute(
        sa.update(deployments)
        .where(deployments.c.job == job, deployments.c.id == deployment)
        .values(drain=None if drain is None else encode(drain).decode())
    )


def reset(connection: sa.Connection, job: str, deployment: int, changed: Iterable[Lane], event: Event) -> None:
    """Put a deployment into the state "reset", in which it can't be started again. End its drain, and store the
    ``changed`` lanes. All processes of the job lose their seats.
    """
    move_deployment(connection, job, deployment, state=DeploymentState.RESET, error=None, at=event.at)
    put_drain(connection, job, deployment, None)
    put_lanes(connection, changed)
    mark_gone(connection, event.what, containers.c.job == job)


def mark_gone(connection: sa.Connection, why: str, *who: sa.ColumnElement[bool]) -> None:
    """Record that processes no longer hold their seats, and the reason."""
    connection.execute(sa.update(containers).where(*who, containers.c.gone.is_(None)).values(gone=why))


def add_events(connection: sa.Connection, happened: Sequence[Event]) -> None:
    """Add events."""
    if happened:
        connection.execute(sa.insert(events), [_event_row(event) for event in happened])


def _event_row(event: Event) -> dict[str, Any]:
    row = {column.name: getattr(event, column.name) for column in events.c if column is not events.c.id}
    return {**row, "change": None if event.change is None else compact(event.change).decode()}


def add_container(
    connection: sa.Connection, registration: Registration, container: str, seat: str, epoch: int, at: float
) -> ContainerRecord:
    """Add and return the record of a process that takes a seat at ``at``, in seconds since 1970."""
    record = ContainerRecord.of(registration, container, seat, epoch, at)
    row = {column.name: getattr(record, column.name) for column in containers.c}
    connection.execute(sa.insert(containers).values(**row))
    return record


def claim_lead(connection: sa.Connection, seen: LeaderRecord | None, epoch: int, holder: str) -> bool:
    """Put the coordinator with the URL ``holder`` into the leader's row, if the row hasn't changed since ``seen`` was
    read. ``seen`` is None if there was no row. Returns whether the coordinator was put into the row.
    """
    values = {"epoch": epoch, "holder": holder, "beat": 0}
    if seen is None:
        there = connection.execute(sa.select(leader.c.epoch)).first() is not None
        return not there and connection.execute(sa.insert(leader).values(id=1, **values)) is not None
    its = [leader.c[name] == getattr(seen, name) for name in values]
    return connection.execute(sa.update(leader).where(*its).values(**values)).rowcount == 1
