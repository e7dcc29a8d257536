"""Finds who serves a job: the coordinator that was named, or one that runs on this machine, else the store alone."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING, TypeVar

from anabranch import config as configuration
from anabranch.config import CoordinatorSettings, Settings, secrets
from anabranch.coordinator import endpoint, queries
from anabranch.coordinator.api.client import Client
from anabranch.coordinator.store import Event, address
from anabranch.errors import ConflictError, UsageError
from anabranch.model.job_model import JobModel
from anabranch.protocol.status import JobStatus

if TYPE_CHECKING:
    from anabranch.coordinator.store import Store

T = TypeVar("T")


def jobs(settings: CoordinatorSettings) -> list[JobStatus]:
    """All jobs of a coordinator; or of a store, those that run as their coordinators say."""
    if (url := _url(settings)) is not None:
        with _client(url, settings) as client:
            return client.jobs()
    served = endpoint.find(settings.store)
    with _opened(settings) as store:
        found = queries.jobs(store)
    return [status(settings, each.job) if each.job in served else each for each in found]


def status(settings: CoordinatorSettings, job: str) -> JobStatus:
    """A job's status. NotFoundError names the jobs that there are."""
    return _told(settings, job, lambda found: found.status(job), lambda store: queries.status(store, job))


def events(settings: CoordinatorSettings, job: str, limit: int) -> list[Event]:
    """The last ``limit`` events of a job, oldest first."""
    return _told(settings, job, lambda found: found.events(job, limit), lambda store: queries.events(store, job, limit))


def described(settings: CoordinatorSettings, job: str) -> tuple[JobStatus, JobModel]:
    """A job's status, and its job model."""
    return _told(
        settings,
        job,
        lambda found: (found.status(job), found.model(job)),
        lambda store: (queries.status(store, job), queries.model(store, job)),
    )


def settings_of(settings: Settings, job: str) -> Settings:
    """The settings that a job was started with on a coordinator; of one that was run in one process, these here."""
    try:
        running = _told(
            settings.coordinator, job, lambda found: found.running(job), lambda store: queries.running(store, job)
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
        f"job {job!r} is not running: its last state is {known.state}", "start it with anabranch run and its job file"
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
    if settings.url is not None or not address.is_on_server(settings.store):
        return settings.url
    with _opened(settings) as store:
        leader = store.leader()
    return None if leader is None else leader.holder


def _client(url: str, settings: CoordinatorSettings) -> Client:
    token = None if settings.token is None else secrets.resolved("coordinator.token", settings.token)
    return Client(url, token=token)


def _told(settings: CoordinatorSettings, job: str, ask: Callable[[Client], T], look: Callable[[Store], T]) -> T:
    """What the coordinator says that serves the job; what the store says, if none does."""
    url = _url(settings) or endpoint.find(settings.store).get(job)
    if url is not None:
        with _client(url, settings) as found:
            return ask(found)
    with _opened(settings) as store:
        return look(store)


def _opened(settings: CoordinatorSettings) -> closing[Store]:
    """The store, to look into. Where a coordinator answers it isn't needed, nor what it takes to import it."""
    from anabranch.coordinator.store import Store

    return closing(Store.open_existing(settings.store))
