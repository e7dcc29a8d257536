"""Rows of the store's tables: what a transaction writes into them, and a deployment's as it is read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from anabranch.coordinator.store.records import DeploymentRecord, Event
from anabranch.coordinator.store.tables import containers, deployments, events, jobs, lanes, models
from anabranch.formats import Format
from anabranch.model.deployment_state import DeploymentState
from anabranch.model.document import decode, encode
from anabranch.model.lane import Lane
from anabranch.protocol.deployment import Program, StartRequest
from anabranch.protocol.drain import DrainProgress

__all__ = [
    "add_deployment",
    "add_events",
    "add_lanes",
    "deployment",
    "mark_gone",
    "move_deployment",
    "next_epoch",
    "program",
    "put_drain",
    "put_lanes",
]


def deployment(row: Mapping[Any, Any]) -> DeploymentRecord:
    """The record of a deployment. The row has its last generation too."""
    documents = {name: msgspec.json.decode(row[name]) for name in ("fingerprint", "promises", "formats")}
    documents["formats"] = {stream: Format.from_builtins(each) for stream, each in documents["formats"].items()}
    program = None if row["program"] is None else decode(row["program"], Program)
    drain = None if row["drain"] is None else decode(row["drain"], DrainProgress)
    state = DeploymentState(row["state"])
    return DeploymentRecord(**{**row, **documents, "state": state, "program": program, "drain": drain})


def _lane_row(lane: Lane) -> dict[str, Any]:
    return {
        "id": lane.id,
        "job": lane.job,
        "deployment": lane.deployment,
        "state": lane.state.value,
        "record": encode(lane).decode(),
    }


def add_lanes(connection: sa.Connection, new: Sequence[Lane], generation: int) -> None:
    """New lanes of a generation, in the order in which they were planned."""
    rows = [{**_lane_row(lane), "generation": generation, "place": place} for place, lane in enumerate(new)]
    if rows:
        connection.execute(sa.insert(lanes), rows)


def add_deployment(connection: sa.Connection, start: StartRequest, state: DeploymentState, at: float) -> None:
    """A new deployment with its first generation and its lanes."""
    job, number, generation = start.graph.job, start.model.run_id, start.model.generation
    row = {
        "job": job,
        "id": number,
        "state": state.value,
        "graph": encode(start.graph).decode(),
        "fingerprint": msgspec.json.encode(start.fingerprint).decode(),
        "promises": msgspec.json.encode(start.promises).decode(),
        "formats": msgspec.json.encode({s: f.to_builtins() for s, f in start.formats.items()}).decode(),
        "program": program(start.program),
        "until_caught_up": start.until_caught_up,
        "created_at": at,
        "changed_at": at,
    }
    connection.execute(sa.insert(deployments).values(**row))
    document = encode(start.model).decode()
    connection.execute(sa.insert(models).values(job=job, deployment=number, generation=generation, document=document))
    add_lanes(connection, start.lanes, generation)


def program(program: Program | None) -> str | None:
    return None if program is None else encode(program).decode()


def next_epoch(connection: sa.Connection, job: str) -> int:
    """Raise a job's epoch, and give it."""
    raised = sa.update(jobs).where(jobs.c.name == job).values(epoch=jobs.c.epoch + 1).returning(jobs.c.epoch)
    return int(connection.execute(raised).scalar_one())


def put_lanes(connection: sa.Connection, changed: Iterable[Lane]) -> None:
    """Replace the records of lanes."""
    for lane in changed:
        row = {"state": lane.state.value, "record": encode(lane).decode()}
        connection.execute(sa.update(lanes).where(lanes.c.id == lane.id, lanes.c.job == lane.job).values(**row))


def move_deployment(
    connection: sa.Connection, job: str, deployment: int, *, state: DeploymentState, error: str | None, at: float
) -> None:
    """Put a deployment into a state."""
    connection.execute(
        sa.update(deployments)
        .where(deployments.c.job == job, deployments.c.id == deployment)
        .values(state=state.value, error=error, changed_at=at)
    )


def put_drain(connection: sa.Connection, job: str, deployment: int, drain: DrainProgress | None) -> None:
    """Replace how far a deployment's drain is; None: it doesn't drain."""
    connection.execute(
        sa.update(deployments)
        .where(deployments.c.job == job, deployments.c.id == deployment)
        .values(drain=None if drain is None else encode(drain).decode())
    )


def mark_gone(connection: sa.Connection, why: str, *who: sa.ColumnElement[bool]) -> None:
    """Processes lose their seats."""
    connection.execute(sa.update(containers).where(*who, containers.c.gone.is_(None)).values(gone=why))


def add_events(connection: sa.Connection, happened: Sequence[Event]) -> None:
    """Add to the log of events."""
    if happened:
        row = ("job", "at", "who", "what", "why")
        connection.execute(sa.insert(events), [{name: getattr(event, name) for name in row} for event in happened])
