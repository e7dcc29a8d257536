"""Reads what a store on this machine knows about a job that is about to run."""

from __future__ import annotations

from anabranch.coordinator.store import Store, address, stored_jobs
from anabranch.errors import NotFoundError
from anabranch.model.deployment_state import DeploymentState
from anabranch.model.job_model import JobModel

__all__ = ["present_model"]


def present_model(store_url: str, job: str) -> tuple[JobModel | None, bool]:
    """The model of a job's current generation, and whether the job was drained or reset, according to the store at
    ``store_url``.

    The model is None if the job was reset. The result is (None, False) if the store doesn't exist, doesn't know the
    job, or is on a server.
    """
    if address.is_on_server(store_url):
        return None, False
    try:
        store = Store.open_existing(store_url)
    except NotFoundError:
        return None, False
    try:
        state = stored_jobs.deployment(store, job).state
        return None if state is DeploymentState.RESET else stored_jobs.model(store, job), state.is_over
    except NotFoundError:
        return None, False
    finally:
        store.close()
