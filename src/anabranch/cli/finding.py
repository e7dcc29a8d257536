"""Finds who serves a job: the coordinator that was named, or one that runs on this machine, else the store alone."""

from __future__ import annotations

from anabranch import references
from anabranch.config import CoordinatorSettings, Settings
from anabranch.coordinator import endpoint, reading
from anabranch.coordinator.client import Client
from anabranch.coordinator.store import Event, Store, database
from anabranch.errors import ConflictError, UsageError
from anabranch.messages import JobStatus


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
    return [_status(served[s.job], settings, s.job) if s.job in served else s for s in found]


def status(settings: CoordinatorSettings, job: str) -> JobStatus:
    """A job's status. NotFoundError names the jobs that there are."""
    url = _url(settings) or endpoint.find(settings.store).get(job)
    if url is not None:
        return _status(url, settings, job)
    store = Store.open_existing(settings.store)
    try:
        return reading.status(store, job)
    finally:
        store.close()


def events(settings: CoordinatorSettings, job: str, limit: int) -> list[Event]:
    """The last ``limit`` events of a job, oldest first."""
    url = _url(settings) or endpoint.find(settings.store).get(job)
    if url is not None:
        with _client(url, settings) as client:
            return client.events(job, limit)
    store = Store.open_existing(settings.store)
    try:
        return reading.events(store, job, limit)
    finally:
        store.close()


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


def _status(url: str, settings: CoordinatorSettings, job: str) -> JobStatus:
    with _client(url, settings) as found:
        return found.status(job)
