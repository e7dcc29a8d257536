"""The store as a class. Each method that writes uses a single transaction."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Self

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from anabranch.coordinator.store import address, database, leading, lookups, moving, rows, sqlite, sweeping
from anabranch.coordinator.store.records import (
    ALL_EVENTS,
    ContainerRecord,
    DeploymentRecord,
    Event,
    EventRange,
    LeaderRecord,
    seat_left,
    seat_lost,
    seat_taken,
)
from anabranch.coordinator.store.tables import containers, jobs, lanes, models
from anabranch.model.deployment_state import DeploymentState
from anabranch.model.document import encode
from anabranch.model.graph import Graph
from anabranch.model.job_model import JobModel
from anabranch.model.lane import Lane, LaneState
from anabranch.protocol.container import Registration
from anabranch.protocol.deployment import StartRequest
from anabranch.protocol.drain import DrainProgress

__all__ = ["Store"]

_NO_EPOCH = 0  # below all epochs that are claimed


class Store:
    """A store at a database URL (``sqlite://``: in memory). If the store doesn't exist, it is created. Thread-safe.

    A store in an older format is first migrated in one transaction. A leader that runs an older version loses the lead.

    The attribute ``url`` is for messages and has no password. After a call to ``stand_by`` or ``claim``, this object
    writes only while it leads: each transaction that writes checks that nobody has claimed a later epoch. Without such
    a call, this object writes no matter who leads.

    Raises:
        ConfigError: the store can't be opened or written, or the database belongs to another application.
        UnsupportedFormatError: a newer anabranch has migrated the store, the format isn't valid, or a store in an older
            format has replaced the store after it was opened. Nothing is changed.
        ConflictError: another process has locked the SQLite file, and this object hasn't written to it before.
        StoreUnavailableError: PostgreSQL can't be reached or is too busy, or SQLite's disk is full. After the first
            write, also raised if a right was taken away, or if SQLite's file is locked. Later calls can succeed.
        NotLeadingError: a write was requested, but this object doesn't lead. Nothing was written.
    """

    def __init__(self, url: str) -> None:
        self._open(url, database.create(url))

    @classmethod
    def open_existing(cls, url: str, to_write: bool = False) -> Self:
        """Open a store without creating anything. Raises NotFoundError if there is none.

        A store in an older format is migrated if it is opened ``to_write``. Otherwise, a store in SQLite is read as if
        it had been migrated, and UnsupportedFormatError is raised for a store in PostgreSQL.
        """
        store = cls.__new__(cls)
        store._open(url, database.open_existing(url, to_write))
        return store

    def _open(self, url: str, engine: sa.Engine) -> None:
        self.url = address.shown(url)
        self._database, self._engine, self._explained = url, engine, database.Explained(url)
        self._writer = engine.execution_options(**sqlite.WRITES)
        self._lock = threading.Lock()
        self._looking: AbstractContextManager[Any] = self._lock if engine.dialect.name == "sqlite" else nullcontext()
        self._epoch: int | None = None  # None: writes are unconditional
        self._watchers: list[Callable[[], object]] = []

    @contextmanager
    def watched(self, wake: Callable[[], object]) -> Iterator[None]:
        """Inside ``with``, call ``wake`` after each write in which this object adds events. ``wake`` must not block."""
        self._watchers.append(wake)
        try:
            yield
        finally:
            self._watchers.remove(wake)

    def close(self) -> None:
        with self._lock:
            self._engine.dispose()

    # Lookups

    def jobs(self) -> list[str]:
        with self._reading() as connection:
            return sorted(connection.execute(sa.select(jobs.c.name)).scalars())

    def deployment(self, job: str, number: int | None = None) -> DeploymentRecord | None:
        """A deployment of a job; without a number, the last one. None if there is no such deployment."""
        with self._reading() as connection:
            return lookups.deployment(connection, job, number)

    def last_state(self, job: str) -> tuple[int, int, DeploymentState] | None:
        """The number, the generation and the state of a job's last deployment, even if its documents can't be read."""
        with self._reading() as connection:
            return lookups.last_state(connection, job)

    def revisions(self) -> dict[str, tuple[object, ...]]:
        """See :func:`anabranch.coordinator.store.lookups.revisions`."""
        with self._reading() as connection:
            return lookups.revisions(connection)

    def graph(self, job: str, deployment: int) -> Graph:
        with self._reading() as connection:
            return lookups.graph(connection, job, deployment)

    def model(self, job: str, deployment: int, generation: int) -> JobModel:
        with self._reading() as connection:
            return lookups.model(connection, job, deployment, generation)

    def has_request(self, job: str, deployment: int, request: str) -> bool:
        """Whether one of the deployment's generations was requested with this id."""
        with self._reading() as connection:
            return lookups.has_request(connection, job, deployment, request)

    def lanes(self, job: str) -> dict[str, Lane]:
        """All lanes that a job has ever had, by id, in the order in which they were planned."""
        with self._reading() as connection:
            return {lane.id: lane for lane in lookups.lanes(connection, lanes.c.job == job)}

    def containers(self, job: str) -> list[ContainerRecord]:
        """The processes that hold a job's seats according to the store. They may have ended."""
        with self._reading() as connection:
            return lookups.present(connection, job)

    def container(self, container: str) -> ContainerRecord | None:
        with self._reading() as connection:
            row = connection.execute(sa.select(containers).where(containers.c.id == container)).mappings().first()
        return ContainerRecord(**row) if row is not None else None

    def former(self, registration: Registration) -> ContainerRecord | None:
        """See :func:`anabranch.coordinator.store.lookups.former`."""
        with self._reading() as connection:
            return lookups.former(connection, registration)

    def lost(self, job: str, limit: int) -> list[ContainerRecord]:
        """Up to ``limit`` processes of a job that no longer hold their seats. The last to take its seat comes first."""
        with self._reading() as connection:
            return lookups.lost(connection, limit, containers.c.job == job)

    def artifact(self, sha256: str) -> bytes | None:
        """The code with the hash ``sha256``; None if the store doesn't have it."""
        with self._reading() as connection:
            return lookups.artifact(connection, sha256)

    def events(self, job: str, limit: int, wanted: EventRange = ALL_EVENTS) -> list[Event]:
        """See :func:`anabranch.coordinator.store.lookups.events_of`."""
        with self._reading() as connection:
            return lookups.events_of(connection, job, limit, wanted)

    def lane_states(self, job: str) -> dict[str, int]:
        """How many lanes of a job are in each state, over all deployments."""
        with self._reading() as connection:
            return lookups.lane_states(connection, job)

    def open_lanes(self, job: str) -> list[Lane]:
        """The lanes of a job that aren't closed, in the order in which they were planned."""
        with self._reading() as connection:
            return lookups.lanes(connection, lanes.c.job == job, lanes.c.state != LaneState.CLOSED.value)

    def deployment_numbers(self, job: str, limit: int) -> list[int]:
        """The numbers of a job's last ``limit`` deployments, newest first."""
        with self._reading() as connection:
            return lookups.deployment_numbers(connection, job, limit)

    def export_job(self, job: str) -> moving.JobRows:
        """All rows of a job, with the stored code of its deployments. Raises NotFoundError if there is no such job."""
        with self._reading() as connection:
            return moving.of_job(connection, job)

    # Leadership

    def leader(self) -> LeaderRecord | None:
        """The coordinator that leads, or that led last; None if none ever led."""
        with self._reading() as connection:
            return leading.read(connection)

    def leads(self) -> bool:
        """Whether this object can write: it leads, or neither ``stand_by`` nor ``claim`` was ever called."""
        found = None if self._epoch is None else self.leader()
        return self._epoch is None or (found is not None and not found.resigned and found.epoch == self._epoch)

    def stand_by(self) -> None:
        """From now on, write only while this object leads."""
        with self._lock:
            self._epoch = _NO_EPOCH if self._epoch is None else self._epoch

    def claim(self, seen: LeaderRecord | None, holder: str) -> bool:
        """Claim the lead under the next epoch. This succeeds only if the leader's row hasn't changed since it was read.
        Returns whether this object now leads. If this object doesn't lead, it can't write.

        Args:
            seen: what :meth:`leader` returned; None if no coordinator had ever led.
            holder: the URL of the coordinator that claims the lead.
        """
        with self._lock:
            self._epoch = _NO_EPOCH
            epoch = 1 if seen is None else seen.epoch + 1
            with self._explained(writes=True):
                try:
                    with self._writer.begin() as connection:
                        database.check_format(connection, self._database)
                        won = rows.claim_lead(connection, seen, epoch, holder)
                except IntegrityError:
                    return False  # another coordinator was faster
            if won:
                self._epoch = epoch
            return won

    def renew(self) -> None:
        """Renew the lease. Raises NotLeadingError if this object doesn't lead."""
        with self._lock, self._explained(writes=True), self._writer.begin() as connection:
            leading.renew(connection, self._epoch)

    def resign(self) -> None:
        """Stop leading, so that others can lead at once. Raises NotLeadingError if this object doesn't lead."""
        with self._lock:
            try:
                with self._explained(writes=True), self._writer.begin() as connection:
                    leading.resign(connection, self._epoch)
            finally:
                self._epoch = _NO_EPOCH

    # Writes

    def create_deployment(self, start: StartRequest, state: DeploymentState, event: Event) -> None:
        """Create the deployment ``start.model.run_id``, its first generation and its lanes."""
        job = start.graph.job
        with self.writing(event) as connection:
            if connection.execute(sa.select(jobs.c.name).where(jobs.c.name == job)).first() is None:
                connection.execute(sa.insert(jobs).values(name=job, epoch=0))
            rows.add_deployment(connection, start, state, event.at)

    def replace_deployment(
        self,
        start: StartRequest,
        state: DeploymentState,
        former: DeploymentState,
        changed: Iterable[Lane],
        event: Event,
        noted: Sequence[Event] = (),
        gone: str = "",
    ) -> None:
        """Like :meth:`create_deployment`, for a deployment that replaces another. The replaced deployment,
        ``start.model.replaces``, gets the state ``former``. Also stores the ``changed`` lanes. If ``gone`` isn't empty,
        all processes lose their seats, and ``gone`` is stored as the reason."""
        with self.writing(event, *noted) as connection:
            rows.replace_deployment(connection, start, state, former, event.at)
            rows.put_lanes(connection, changed)
            if gone:
                rows.mark_gone(connection, gone, containers.c.job == start.graph.job)

    def resume_deployment(
        self, deployment: DeploymentRecord, state: DeploymentState, changed: Iterable[Lane], gone: str, event: Event
    ) -> None:
        """Start a stored deployment again, with the program and ``until_caught_up`` of ``deployment``. Removes the
        stored error, and stores the job's ``changed`` lanes. All processes lose their seats, for the reason ``gone``.
        """
        with self.writing(event) as connection:
            rows.resume_deployment(connection, deployment, state, event.at)
            rows.put_lanes(connection, changed)
            rows.mark_gone(connection, gone, containers.c.job == deployment.job)

    def move_deployment(
        self,
        job: str,
        deployment: int,
        state: DeploymentState,
        error: str | None,
        event: Event,
        drain: DrainProgress | None = None,
    ) -> None:
        """Give a deployment another state, and store its error and the progress of its drain, if any."""
        with self.writing(event) as connection:
            rows.move_deployment(connection, job, deployment, state=state, error=error, at=event.at)
            rows.put_drain(connection, job, deployment, drain)

    def reset(self, job: str, deployment: int, changed: Iterable[Lane], event: Event) -> None:
        """Reset a job's last deployment. ``changed`` contains all lanes of the job, as they are after the reset."""
        with self.writing(event) as connection:
            rows.reset(connection, job, deployment, changed, event)

    def put_drain(self, job: str, deployment: int, drain: DrainProgress | None, event: Event) -> None:
        """Store that a drain was requested, has progressed, or was cancelled."""
        with self.writing(event) as connection:
            rows.put_drain(connection, job, deployment, drain)

    def change_deployment(
        self,
        model: JobModel,
        state: DeploymentState,
        changed: Iterable[Lane],
        new: Sequence[Lane],
        event: Event,
        noted: Sequence[Event] = (),
    ) -> None:
        """Store the next generation of a deployment, in which some lanes have changed and others are new."""
        with self.writing(event, *noted) as connection:
            rows.move_deployment(connection, model.job, model.run_id, state=state, error=None, at=event.at)
            document = encode(model).decode()
            its = {"job": model.job, "deployment": model.run_id, "generation": model.generation}
            connection.execute(sa.insert(models).values(**its, document=document))
            rows.put_lanes(connection, changed)
            rows.add_lanes(connection, new, model.generation)

    def put_lanes(self, changed: Iterable[Lane], happened: Sequence[Event]) -> None:
        """Replace stored lanes."""
        with self.writing(*happened) as connection:
            rows.put_lanes(connection, changed)

    def register(
        self, registration: Registration, seat: str, changed: Sequence[Lane], at: float
    ) -> tuple[ContainerRecord, list[Lane]]:
        """Give a process a seat under the job's next epoch. The ``changed`` lanes get this epoch, too. Returns the
        process and the lanes as stored."""
        job = registration.job
        with self.writing() as connection:
            epoch = rows.next_epoch(connection, job)
            container = f"{job}:{seat}:{epoch}"
            its = (containers.c.job == job, containers.c.seat == seat)
            rows.mark_gone(connection, f"{container} has taken its seat", *its)
            process = rows.add_container(connection, registration, container, seat, epoch, at)
            stored = rows.put_under_epoch(connection, changed, epoch)
            rows.add_events(connection, [seat_taken(process, at)])
        self._wake()
        return process, stored

    def reseat(self, changed: Sequence[Lane], event: Event) -> list[Lane]:
        """Store lanes, for example with another seat, under the job's next epoch. Returns the lanes as stored."""
        with self.writing(event) as connection:
            epoch = rows.next_epoch(connection, event.job)
            return rows.put_under_epoch(connection, changed, epoch)

    def expel(self, process: ContainerRecord, changed: Sequence[Lane], why: str, at: float, who: str) -> list[Lane]:
        """Take a process's seat away. The ``changed`` lanes get the job's next epoch. Returns the lanes as stored."""
        with self.writing(seat_lost(process, at, who, why)) as connection:
            epoch = rows.next_epoch(connection, process.job)
            rows.mark_gone(connection, why, containers.c.id == process.id)
            return rows.put_under_epoch(connection, changed, epoch)

    def leave(self, process: ContainerRecord, at: float) -> None:
        """Record that a process has returned its seat."""
        with self.writing(seat_left(process, at)) as connection:
            rows.mark_gone(connection, ContainerRecord.LEFT, containers.c.id == process.id)

    def sweep(self, events: int, versions: int, unused: Mapping[str, str]) -> sweeping.SweepResult:
        """Delete old history (see :func:`anabranch.coordinator.store.sweeping.sweep`)."""
        return sweeping.sweep(self.writing, events, versions, unused)

    def put_artifact(self, sha256: str, content: bytes) -> None:
        """Store the code of a job, if it isn't stored yet, and note that its deployment will follow."""
        with self.writing() as connection:
            rows.put_artifact(connection, sha256, content)

    def import_job(self, job: str, rows: moving.JobRows, event: Event) -> None:
        """Add a job with its rows from another store. Raises ConflictError if this store already knows the job."""
        with self.writing(event) as connection:
            moving.add(connection, job, rows)

    def note(self, happened: Sequence[Event]) -> None:
        """Add events."""
        with self.writing(*happened):
            pass

    # Transactions

    @contextmanager
    def _reading(self) -> Iterator[sa.Connection]:
        with self._looking, self._explained(), self._engine.connect() as connection:
            yield connection

    @contextmanager
    def writing(self, *happened: Event) -> Iterator[sa.Connection]:
        """A transaction for writes and the events that ``happened``: either all of them are stored, or none."""
        with self._lock, self._explained(writes=True), self._writer.begin() as connection:
            if self._epoch is None:
                database.check_format(connection, self._database)
            else:  # this covers the format, too, because a migration ends the leader's epoch
                leading.check(connection, self._epoch)
            yield connection
            rows.add_events(connection, happened)
        if happened:
            self._wake()

    def _wake(self) -> None:
        for wake in list(self._watchers):
            wake()
