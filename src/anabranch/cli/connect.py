"""Finds the coordinator that serves a job. If a coordinator is configured, it is used. Otherwise, if several
machines can reach the store, the coordinator that leads is used. For any other store, the process on this machine
that serves the job is used. If there is no coordinator at all, questions are answered from the store.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

import msgspec

from anabranch import config as configuration
from anabranch.config import CoordinatorSettings, Settings, secrets
from anabranch.coordinator.api import tls, token_file
from anabranch.coordinator.api.client import AWAY, Client
from anabranch.coordinator.api.operations import Operations
from anabranch.coordinator.leadership import endpoint
from anabranch.coordinator.store import address, stored_jobs
from anabranch.deadlines import wait_until
from anabranch.errors import ConflictError, OutOfTimeError, UsageError
from anabranch.model.job_model import JobModel
from anabranch.protocol.deployment import RunningDeployment
from anabranch.protocol.status import JobStatus
from anabranch.views.events import LoggedEvent
from anabranch.views.overview import JobOverview, Overview

if TYPE_CHECKING:
    from anabranch.coordinator.store import Store

T = TypeVar("T")
_POLL = 0.1


def jobs(settings: CoordinatorSettings) -> list[JobStatus]:
    """The status of each job: from the coordinator at :func:`coordinator_url` or, without a URL, from the process on
    this machine that serves the job. If no process serves the job, or the process doesn't answer, the status is the
    stored one."""
    if (url := coordinator_url(settings)) is not None:
        with _client(url, settings) as client:
            return client.jobs()
    served = served_here(settings)
    with _opened(settings) as store:
        found = stored_jobs.jobs(store)
    return [_asked(partial(status, settings, each.job), each) if each.job in served else each for each in found]


def overview(settings: CoordinatorSettings) -> Overview:
    """An overview of all jobs, from the coordinator at :func:`coordinator_url`. Without a URL, the data of each job
    come from the process on this machine that serves the job. If there is no such process, or it doesn't answer, the
    data come from the store.
    """
    found = read(settings, None, lambda asked: asked.overview())
    if coordinator_url(settings) is not None:
        return found
    served, lines = served_here(settings), dict[tuple[str | None, str], JobOverview]()
    for url in sorted(set(served.values())):
        with _client(url, settings) as asked:
            its = _asked(lambda: asked.overview().jobs, tuple[JobOverview, ...]())
        lines |= {(url, each.job): each for each in its}
    jobs = tuple(lines.get((served.get(each.job), each.job), each) for each in found.jobs)
    return msgspec.structs.replace(found, jobs=jobs)


def _asked(ask: Callable[[], T], otherwise: T) -> T:
    """The answer of a process. If the process can't answer at the moment, the result is ``otherwise``, so that one
    unresponsive process doesn't hide the jobs of the others.
    """
    try:
        return ask()
    except AWAY:
        return otherwise


def status(settings: CoordinatorSettings, job: str) -> JobStatus:
    """A job's status. Raises NotFoundError, which names the existing jobs, if there is no such job."""
    return _told(settings, job, lambda found: found.status(job), lambda store: stored_jobs.status(store, job))


def events(settings: CoordinatorSettings, job: str, limit: int) -> list[LoggedEvent]:
    """The last ``limit`` events of a job, oldest first."""
    return _told(
        settings,
        job,
        lambda found: found.events(job, limit),
        lambda store: [each.logged() for each in stored_jobs.events(store, job, limit)],
    )


def described(settings: CoordinatorSettings, job: str) -> tuple[JobStatus, JobModel]:
    """A job's status and job model."""
    return _told(
        settings,
        job,
        lambda found: (found.status(job), found.model(job)),
        lambda store: (stored_jobs.status(store, job), stored_jobs.model(store, job)),
    )


def read(settings: CoordinatorSettings, job: str | None, ask: Callable[[Operations], T]) -> T:
    """The answer to a question about one job, or about all jobs if ``job`` is None. ``ask`` is called with a client of
    the coordinator at :func:`coordinator_url` or, without a URL, of the process on this machine that serves the job. If
    there is no such process, ``ask`` is called with a coordinator in this process that only reads the store.
    """
    url = coordinator_url(settings)
    if url is None and job is not None:
        url = served_here(settings).get(job)
    if url is not None:
        with _client(url, settings) as found:
            return ask(found)
    from anabranch.coordinator.coordinator import Coordinator

    with _opened(settings) as store:
        return ask(Coordinator(store))


def settings_of(settings: Settings, job: str) -> Settings:
    """The settings with which a job was started on a coordinator; ``settings`` if the job was started by ``run``."""
    where = settings.coordinator
    return _restored(
        settings,
        lambda: _told(where, job, lambda found: found.running(job), lambda store: stored_jobs.running(store, job)),
    )


def stored_settings(settings: Settings, store: Store, job: str) -> Settings:
    """Like :func:`settings_of`, but reads only the store, and asks no coordinator."""
    return _restored(settings, lambda: stored_jobs.running(store, job))


def _restored(settings: Settings, running: Callable[[], RunningDeployment]) -> Settings:
    try:
        program = running().program
    except ConflictError:
        return settings
    return settings if program.in_process else configuration.restored(program.settings)


def client(settings: CoordinatorSettings, job: str) -> Client:
    """A client of the coordinator that serves the job.

    Raises:
        NotFoundError: no coordinator is found, and the store has no such job.
        ConflictError: no coordinator is found, but the store has the job. Or a process on this machine is starting or
            ending the job.
    """
    url = coordinator_url(settings) or served_here(settings).get(job)
    if url is not None:
        return _client(url, settings)
    if pid := LockHolder(settings, job).pid:
        raise ConflictError(
            f"job {job!r} can't be reached: process {pid} is starting it, ending it, or at work on its files",
            f"run the command again in some seconds; see anabranch status {job}",
        )
    known = status(settings, job)
    by_run = "start it with anabranch run and its job file"
    by_coordinator = "start a coordinator that uses this store: anabranch coordinator"
    raise ConflictError(
        f"job {job!r} is not running: its last state is {known.state}",
        by_coordinator if address.is_on_server(settings.store) else by_run,
    )


def at(settings: Settings, url: str | None) -> Client:
    """A client of the coordinator at ``url`` or, by default, at :func:`coordinator_url`. Raises UsageError if there is
    no URL.
    """
    found = url or coordinator_url(settings.coordinator)
    if found is None:
        raise UsageError(
            "no coordinator is named",
            "name one with --coordinator URL or [coordinator] url; anabranch coordinator starts one",
        )
    return _client(found, settings.coordinator)


def coordinator_url(settings: CoordinatorSettings) -> str | None:
    """The configured URL. If no URL is configured, but several machines can reach the store, the result is the URL of
    the coordinator that leads or that led last. In all other cases, the result is None."""
    if settings.url is not None or not address.is_on_server(settings.store):
        return settings.url
    with _opened(settings) as store:
        leader = store.leader()
    return None if leader is None else leader.holder


def served_here(settings: CoordinatorSettings) -> dict[str, str]:
    """The URLs of the processes on this machine that serve jobs of the store, by job. Empty for a store that several
    machines can reach: for such a store, use :func:`coordinator_url`."""
    return {} if address.is_on_server(settings.store) else endpoint.find(settings.store)


def is_left_by_run(settings: CoordinatorSettings, job: str) -> bool:
    """Whether the last process that served a job was an ``anabranch run`` on this machine, and has ended. If so, no
    part of the job is running."""
    if settings.url is not None or address.is_on_server(settings.store):
        return False
    return _is_of_run(settings, job) and not endpoint.RunLock(settings.store, job).is_held()


def _is_of_run(settings: CoordinatorSettings, job: str) -> bool:
    """Whether an ``anabranch run`` started the job's last deployment."""
    with _opened(settings) as store:
        return stored_jobs.deployment(store, job).program is None


class LockHolder:
    """The process on this machine that held a job's lock when this object was made.

    An ``anabranch run`` holds the lock longer than it serves the job: it takes the lock before it starts Spark, and
    releases it after it has stopped Spark. Until then, no other process can run the job or work on its files.

    Attributes:
        pid: the process's id; 0 if there was no such process, if its id isn't known, or if several machines can reach
            the store, so there are no locks.
    """

    def __init__(self, settings: CoordinatorSettings, job: str) -> None:
        self._settings = settings
        self._job = job
        is_here = settings.url is None and not address.is_on_server(settings.store)
        self._lock = endpoint.RunLock(settings.store, job) if is_here else None
        self.pid = (self._lock.holder() if self._lock is not None else None) or 0

    def wait(self, timeout: float) -> None:
        """After the job has ended: if the process is an ``anabranch run``, wait until it has released the lock. (A
        coordinator ends only one of its jobs, so it isn't waited for.) Raises OutOfTimeError after ``timeout`` seconds.
        """

        def late() -> OutOfTimeError:
            return OutOfTimeError(
                f"job {self._job} has ended, but process {self.pid}, in which it ran, hasn't ended in time",
                f"until it has, no other process can work on the job; if it hangs, end it: kill -9 {self.pid}",
            )

        wait_until(lambda: True if self._has_released() else None, timeout, late, _POLL)

    def _has_released(self) -> bool:
        """Whether the process has released the lock, or isn't an ``anabranch run``."""
        if self._lock is None or not self.pid or self._lock.holder() != self.pid:
            return True
        try:
            return not _is_of_run(self._settings, self._job)
        except AWAY:  # for a moment, the store can't be read
            return False


def _client(url: str, settings: CoordinatorSettings) -> Client:
    secured = any(not each.strip().startswith("http://") for each in url.split(","))
    own = settings.ca, settings.client_certificate, settings.client_key
    trust = tls.of_client(*own) if secured else None
    return Client(url, token=lambda: token(url, settings), trust=trust)


def token(url: str, settings: CoordinatorSettings) -> str | None:
    """The configured token. If there is none, and ``url`` is a loopback address, the token that a coordinator on this
    machine has created. None if there is no such token, or if it can't be read.
    """
    if settings.token is not None:
        return secrets.resolved("coordinator.token", settings.token)
    if settings.token_file is None or not all(_is_here(each) for each in url.split(",")):
        return None  # the token of this machine's coordinator must not be sent to others
    return token_file.read(settings.token_file)


def _is_here(url: str) -> bool:
    """Whether the URL is a loopback address."""
    try:
        host = urlsplit(url.strip()).hostname or ""
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _told(settings: CoordinatorSettings, job: str, ask: Callable[[Client], T], look: Callable[[Store], T]) -> T:
    """Like :func:`read`, but for one job. If no coordinator is known, ``look`` reads the answer from the store. If a
    coordinator is known but can't be reached, an error is raised, and the store isn't read.
    """
    url = coordinator_url(settings) or served_here(settings).get(job)
    if url is not None:
        with _client(url, settings) as found:
            return ask(found)
    with _opened(settings) as store:
        return look(store)


def _opened(settings: CoordinatorSettings) -> closing[Store]:
    """The store, for reading. Don't open it without need: importing the store's modules takes time."""
    from anabranch.coordinator.store import Store

    return closing(Store.open_existing(settings.store))
