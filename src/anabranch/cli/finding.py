"""Finds who serves a job: a running coordinator, else the store alone."""

from __future__ import annotations

from anabranch.coordinator import endpoint, reading
from anabranch.coordinator.client import Client
from anabranch.coordinator.store.store import Store
from anabranch.errors import ConflictError
from anabranch.messages import JobStatus


def jobs(store_url: str) -> list[JobStatus]:
    """All jobs of a store, those that run as their coordinators say."""
    served = endpoint.find(store_url)
    store = Store.open_existing(store_url)
    try:
        return [_live(served[s.job], s.job) if s.job in served else s for s in reading.jobs(store)]
    finally:
        store.close()


def status(store_url: str, job: str) -> JobStatus:
    """A job's status. NotFoundError names the jobs that there are."""
    served = endpoint.find(store_url)
    if job in served:
        return _live(served[job], job)
    store = Store.open_existing(store_url)
    try:
        return reading.status(store, job)
    finally:
        store.close()


def client(store_url: str, job: str) -> Client:
    """A client of the coordinator that serves the job.

    Raises:
        NotFoundError: nobody knows the job.
        ConflictError: it is known, but nothing runs.
    """
    url = endpoint.find(store_url).get(job)
    if url is not None:
        return Client(url)
    known = status(store_url, job)
    raise ConflictError(
        f"job {job!r} is not running: it is {known.state}", "start it with anabranch run and its job file"
    )


def _live(url: str, job: str) -> JobStatus:
    with Client(url) as found:
        return found.status(job)
