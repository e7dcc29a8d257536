"""Finds who serves a job: the coordinator that was named, or one that runs on this machine, else the store alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from anabranch import config as configuration
from anabranch import references
from anabranch.config import CoordinatorSettings, Settings
from anabranch.coordinator import endpoint, reading
from anabranch.coordinator.client import Client
from anabranch.coordinator.store import Event, Store, database
from anabranch.errors import ConflictError, UsageError
from anabranch.messages import JobStatus
from anabranch.model.job_model import JobModel

T = TypeVar("T")


def jobs(settings: CoordinatorSettings) -> list[JobStatus]:
    """All jobs of a coordinator; or of a store, those that run as their coordinators say."""
    if (url := _url(settings)) is not None:
        with _client(url, settings) as client:
            return client.jobs()
    served = endpoint.find(settings.store)
    store = Store.open_existing(settings.store)
    try:
        found = reading.jobs(store)
    finally:
        store.close()
    return [status(settings, each.job) if each.job in served else each for each in found]


def status(settings: CoordinatorSettings, job: str) -> JobStatus:
    """A job's status. NotFoundError names the jobs that there are."""
    return _told(settings, job, lambda found: found.status(job), lambda store: reading.status(store, job))


def events(settings: CoordinatorSettings, job: str, limit: int) -> list[Event]:
    """The last ``limit`` events of a job, oldest first."""
    return _told(settings, job, lambda found: found.events(job, limit), lambda store: reading.events(store, job, limit))


def described(settings: CoordinatorSettings, job: str) -> tuple[JobStatus, JobModel]:
    """A job's status, and its job model."""
    return _told(
        settings,
        job,
        lambda found: (found.status(job), found.model(job)),
        lambda store: (reading.status(store, job), reading.model(store, job)),
    )


def settings_of(settings: Settings, job: str) -> Settings:
    """The settings that a job was started with on a coordinator; of one that was run in one process, these here."""
    try:
        running = _told(
            settings.coordinator, job, lambda found: found.running(job), lambda store: reading.running(store, job)
        )
    except ConflictError:  # only the process that ran it has its code
        return settings
    return configuration.restored(running.program.settings)


def client(settings: CoordinatorSettings, job: str) -> Client:
    """A client of the coordinator that serves the job.

    Raises:
        NotFoundError: nobody knows the job.
        ConflictError: it is known, but nothing runs.
    """
    url = _url(settings) or endpoint.find(settings.store).get(job)
    if url is not None:
        return _client(url, settings)
    known = status(settings, job)
    raise ConflictError(
        f"job {job!r} is not running: it is {known.state}", "start it with anabranch run and its job file"
    )


def at(settings: Settings, url: str | None) -> Client:
    """A client of the coordinator at a URL, else at the one that is configured. UsageError if neither is given."""
    found = url or _url(settings.coordinator)
    if found is None:
        raise UsageError(
            "no coordinator is named",
            "name one with --coordinator URL or [coordinator] url; anabranch coordinator starts one",
        )
    return _client(found, settings.coordinator)


def _url(settings: CoordinatorSettings) -> str | None:
    """The coordinator that is configured; else the one that leads on a store that several machines reach."""
    if settings.url is not None or not database.is_on_server(settings.store):
        return settings.url
    store = Store.open_existing(settings.store)
    try:
        leader = store.leader()
    finally:
        store.close()
    return None if leader is None else leader.holder


def _client(url: str, settings: CoordinatorSettings) -> Client:
    token = None if settings.token is None else references.resolved("coordinator.token", settings.token)
    return Client(url, token=token)


def _told(settings: CoordinatorSettings, job: str, ask: Callable[[Client], T], look: Callable[[Store], T]) -> T:
    """What the coordinator says that serves the job; what the store says, if none does."""
    url = _url(settings) or endpoint.find(settings.store).get(job)
    if url is not None:
        with _client(url, settings) as found:
            return ask(found)
    store = Store.open_existing(settings.store)
    try:
        return look(store)
    finally:
        store.close()
