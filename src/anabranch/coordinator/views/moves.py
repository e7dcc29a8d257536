"""Finds out from the store which buckets a change moved to another seat."""

from __future__ import annotations

from anabranch.coordinator.store import Store, stored_jobs
from anabranch.errors import NotFoundError
from anabranch.model import moves as bucket_moves
from anabranch.views.changes import Moves

__all__ = ["moves"]


def moves(store: Store, job: str, at: float, deployment: int = 0, generation: int = 0) -> Moves:
    """Which buckets moved to another seat when a generation began.

    Args:
        at: the current time, in seconds since 1970.
        deployment: the deployment's number; 0 for the last deployment.
        generation: the generation's number; 0 for the deployment's last generation.

    Raises:
        NotFoundError: the job, deployment or generation doesn't exist, or the generation is the first one of a
            deployment that doesn't continue from another.
    """
    last = stored_jobs.deployment(store, job, deployment or None)
    number = generation or last.generation
    if not 1 <= number <= last.generation:
        raise NotFoundError(
            f"deployment {last.id} of job {job!r} has no generation {number}", f"its last one is {last.generation}"
        )
    model = store.model(job, last.id, number)
    if number > 1:
        former = store.model(job, last.id, number - 1)
    elif model.replaces:
        former = stored_jobs.model_of(store, job, model.replaces)
    else:
        raise NotFoundError(
            f"nothing was before generation 1 of deployment {last.id} of job {job!r}",
            f"ask for a change: anabranch show changes {job} has them",
        )
    return Moves(
        at=at,
        job=job,
        deployment=last.id,
        generation=number,
        former=(former.run_id, former.generation),
        stages=bucket_moves.compared(former, model),
    )
