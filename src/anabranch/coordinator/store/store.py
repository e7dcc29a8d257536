"""The queries. Every method that writes is one transaction."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self

import msgspec
import sqlalchemy as sa

from anabranch.coordinator.store import database
from anabranch.coordinator.store.records import ContainerRecord, DeploymentRecord, Event
from anabranch.coordinator.store.tables import containers, deployments, events, jobs, lanes, models
from anabranch.formats import Format
from anabranch.messages import Registration, Start
from anabranch.model.document import decode, encode
from anabranch.model.graph import Graph
from anabranch.model.job_model import JobModel
from anabranch.model.lane import Lane

__all__ = ["Store"]


class Store:
    """A store at a database URL, made if it isn't there; ``sqlite://`` is one in memory. For a few threads.

    Raises:
        ConfigError: it can't be opened or written, or is a database of something else.
        UnsupportedFormatError: written by another version; it is left as it is.
        ConflictError: another process has locked it.
    """

    def __init__(self, url: str) -> None:
        self._open(url, database.create(url))

    @classmethod
    def open_existing(cls, url: str) -> Self:
        """For looking: creates nothing, NotFoundError if there is no store."""
        store = cls.__new__(cls)
        store._open(url, database.open_existing(url))
        return store

    def _open(self, url: str, engine: sa.Engine) -> None:
        self.url = url
        self._engine = engine
        self._writer = engine.execution_options(**database.WRITES)
        self._lock = threading.Lock()

    def close(self) -> None:
        with self._lock:
            self._engine.dispose()

    # What is looked up

    def jobs(self) -> list[str]:
        with self._reading() as connection:
            return list(connection.execute(sa.select(jobs.c.name).order_by(jobs.c.name)).scalars())

    def deployment(self, job: str) -> DeploymentRecord | None:
        """The job's last deployment."""
        generation = sa.select(sa.func.max(models.c.generation)).where(
            models.c.job == deployments.c.job, models.c.deployment == deployments.c.id
        )
        columns = [column for column in deployments.c if column.name != "graph"]
        query = sa.select(*columns, generation.scalar_subquery().label("generation"))
        with self._reading() as connection:
            row = connection.execute(_last(query.where(deployments.c.job == job), deployments.c.id)).mappings().first()
        if row is None:
            return None
        documents = {name: msgspec.json.decode(row[name]) for name in ("fingerprint", "promises", "formats")}
        documents["formats"] = {stream: Format.from_builtins(each) for stream, each in documents["formats"].items()}
        return DeploymentRecord(**{**row, **documents})

    def graph(self, job: str, deployment: int) -> Graph:
        return decode(
            self._document(deployments.c.graph, deployments.c.job == job, deployments.c.id == deployment),
            Graph,
        )

    def model(self, job: str, deployment: int, generation: int) -> JobModel:
        its = (models.c.job == job, models.c.deployment == deployment, models.c.generation == generation)
        return decode(self._document(models.c.document, *its), JobModel)

    def lanes(self, job: str) -> dict[str, Lane]:
        """All lanes that the job ever had, of all deployments, by id; in the order they were planned."""
        query = sa.select(lanes.c.record).where(lanes.c.job == job)
        with self._reading() as connection:
            ordered = query.order_by(lanes.c.deployment, lanes.c.generation, lanes.c.place)
            found = [decode(record, Lane) for record in connection.execute(ordered).scalars()]
        return {lane.id: lane for lane in found}

    def containers(self, job: str) -> list[ContainerRecord]:
        """The processes that hold the job's seats, or held them last."""
        query = sa.select(containers).where(containers.c.job == job, containers.c.gone.is_(None))
        with self._reading() as connection:
            rows = connection.execute(query.order_by(containers.c.seat, containers.c.epoch)).mappings().all()
        return [ContainerRecord(**row) for row in rows]

    def container(self, container: str) -> ContainerRecord | None:
        with self._reading() as connection:
            row = connection.execute(sa.select(containers).where(containers.c.id == container)).mappings().first()
        return ContainerRecord(**row) if row is not None else None

    def events(self, job: str, limit: int) -> list[Event]:
        """The last ``limit`` events, oldest first."""
        columns = [column for column in events.c if column.name != "id"]
        query = sa.select(*columns).where(events.c.job == job).order_by(events.c.id.desc()).limit(limit)
        with self._reading() as connection:
            rows = connection.execute(query).mappings().all()
        return [Event(**row) for row in reversed(rows)]

    # Durable steps

    def create_deployment(self, start: Start, state: str, event: Event) -> None:
        """The deployment ``start.model.run_id`` with its first generation and its lanes, as given."""
        job, number, generation = start.graph.job, start.model.run_id, start.model.generation
        with self._writing(event) as connection:
            if connection.execute(sa.select(jobs.c.name).where(jobs.c.name == job)).first() is None:
                connection.execute(sa.insert(jobs).values(name=job, epoch=0))
            row = {
                "job": job,
                "id": number,
                "state": state,
                "graph": encode(start.graph).decode(),
                "fingerprint": msgspec.json.encode(start.fingerprint).decode(),
                "promises": msgspec.json.encode(start.promises).decode(),
                "formats": msgspec.json.encode({s: f.to_builtins() for s, f in start.formats.items()}).decode(),
                "until_caught_up": start.until_caught_up,
                "created_at": event.at,
                "changed_at": event.at,
            }
            connection.execute(sa.insert(deployments).values(**row))
            document = encode(start.model).decode()
            connection.execute(
                sa.insert(models).values(job=job, deployment=number, generation=generation, document=document)
            )
            rows = [
                {**_lane_row(lane), "generation": generation, "place": place} for place, lane in enumerate(start.lanes)
            ]
            if rows:
                connection.execute(sa.insert(lanes), rows)

    def resume_deployment(
        self, deployment: DeploymentRecord, state: str, changed: Iterable[Lane], gone: str, event: Event
    ) -> None:
        """Start a deployment again: its lanes changed, its error cleared, its former processes gone."""
        with self._writing(event) as connection:
            _move(connection, deployment.job, deployment.id, state=state, error=None, at=event.at)
            connection.execute(
                sa.update(deployments)
                .where(deployments.c.job == deployment.job, deployments.c.id == deployment.id)
                .values(until_caught_up=deployment.until_caught_up)
            )
            _put_lanes(connection, changed)
            _leave(connection, gone, containers.c.job == deployment.job)

    def move_deployment(self, job: str, deployment: int, state: str, error: str | None, event: Event) -> None:
        """Put a deployment into a state."""
        with self._writing(event) as connection:
            _move(connection, job, deployment, state=state, error=error, at=event.at)

    def put_lanes(self, changed: Iterable[Lane], happened: Sequence[Event]) -> None:
        """Replace the records of lanes."""
        with self._writing(*happened) as connection:
            _put_lanes(connection, changed)

    def register(
        self, registration: Registration, changed: Sequence[Lane], at: float
    ) -> tuple[ContainerRecord, list[Lane]]:
        """A process takes a seat under the job's next epoch, which the ``changed`` lanes get too.

        Returns:
            the process, and the lanes as they were stored.
        """
        job, seat = registration.job, registration.seat
        with self._writing() as connection:
            raised = sa.update(jobs).where(jobs.c.name == job).values(epoch=jobs.c.epoch + 1).returning(jobs.c.epoch)
            epoch = connection.execute(raised).scalar_one()
            container = f"{job}:{seat}:{epoch}"
            _leave(
                connection,
                f"{container} has taken its seat",
                containers.c.job == job,
                containers.c.seat == seat,
            )
            row = {
                "id": container,
                "job": job,
                "seat": seat,
                "epoch": epoch,
                "execution": registration.execution,
                "host": registration.host,
                "pid": registration.pid,
                "rack": registration.rack,
                "registered_at": at,
                "gone": None,
            }
            connection.execute(sa.insert(containers).values(**row))
            stored = [msgspec.structs.replace(lane, epoch=epoch) for lane in changed]
            _put_lanes(connection, stored)
            why = f"process {registration.pid} on {registration.host}"
            _add_events(connection, [Event(job=job, at=at, who=container, what=f"took seat {seat}", why=why)])
        return ContainerRecord(**row), stored

    # How

    @contextmanager
    def _reading(self) -> Iterator[sa.Connection]:
        with self._lock, database.explained(self.url), self._engine.connect() as connection:
            yield connection

    @contextmanager
    def _writing(self, *happened: Event) -> Iterator[sa.Connection]:
        with self._lock, database.explained(self.url), self._writer.begin() as connection:
            yield connection
            _add_events(connection, happened)

    def _document(self, column: sa.Column[str], *conditions: sa.ColumnElement[bool]) -> str:
        with self._reading() as connection:
            return connection.execute(sa.select(column).where(*conditions)).scalar_one()


def _last(query: sa.Select[Any], column: sa.Column[int]) -> sa.Select[Any]:
    return query.order_by(column.desc()).limit(1)


def _lane_row(lane: Lane) -> dict[str, Any]:
    return {
        "id": lane.id,
        "job": lane.job,
        "deployment": lane.deployment,
        "state": lane.state.value,
        "record": encode(lane).decode(),
    }


def _put_lanes(connection: sa.Connection, changed: Iterable[Lane]) -> None:
    for lane in changed:
        row = {"state": lane.state.value, "record": encode(lane).decode()}
        connection.execute(sa.update(lanes).where(lanes.c.id == lane.id, lanes.c.job == lane.job).values(**row))


def _move(connection: sa.Connection, job: str, deployment: int, *, state: str, error: str | None, at: float) -> None:
    connection.execute(
        sa.update(deployments)
        .where(deployments.c.job == job, deployments.c.id == deployment)
        .values(state=state, error=error, changed_at=at)
    )


def _leave(connection: sa.Connection, why: str, *who: sa.ColumnElement[bool]) -> None:
    connection.execute(sa.update(containers).where(*who, containers.c.gone.is_(None)).values(gone=why))


def _add_events(connection: sa.Connection, happened: Sequence[Event]) -> None:
    if happened:
        row = ("job", "at", "who", "what", "why")
        connection.execute(sa.insert(events), [{name: getattr(event, name) for name in row} for event in happened])
