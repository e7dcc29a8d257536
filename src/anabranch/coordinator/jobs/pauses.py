"""Predicts, when a change is made, how long it will pause output, and measures the pause once the job runs again."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeVar

import msgspec

from anabranch.coordinator.jobs import pause_estimate, seats
from anabranch.coordinator.jobs.pause_estimate import Prediction
from anabranch.coordinator.jobs.running_job import RunningJob
from anabranch.model.deployment_state import DeploymentState
from anabranch.model.lane import Lane
from anabranch.protocol.commands import ChangeResult, ScaleResult

__all__ = ["foretold", "measured", "planned"]

R = TypeVar("R", bound=ChangeResult)


def planned(
    job: RunningJob, closing: Collection[Lane], following: Collection[Lane], free: Collection[str] = ()
) -> float:
    """The predicted pause, in seconds, of a change that is only planned. ``free`` are the seats for which the change
    needs further containers.
    """
    return _predicted(job, closing, following, free).seconds


def foretold(job: RunningJob, change: R, at: float, hasty: bool) -> tuple[R, Prediction]:
    """Predict the pause of a change that is being made now. Returns a copy of ``change`` with this prediction in
    ``pause``, and the prediction itself.

    Args:
        change: the change as planned.
        at: the current time, in seconds since 1970. Unless the job changes to another version, the prediction
            considers the batches that are running at this time.
        hasty: whether every running batch is broken off: see :func:`pause_estimate.predicted`.
    """
    free = change.free if isinstance(change, ScaleResult) else ()
    found = _predicted(job, change.closing, change.lanes, free, at, hasty)
    return msgspec.structs.replace(change, pause=found.seconds), found


def _predicted(
    job: RunningJob,
    closing: Collection[Lane],
    following: Collection[Lane],
    free: Collection[str],
    made_at: float | None = None,
    hasty: bool = False,
) -> Prediction:
    return pause_estimate.predicted(
        closing,
        following,
        job.reports,
        job.progress.shown,
        present=job.lanes,
        starting=seats.until_seated(job, free),
        made_at=made_at,
        hasty=hasty,
    )


def measured(job: RunningJob, now: float) -> tuple[float, float, str] | None:
    """The measured and the predicted pause of the last change, in seconds, and the new lane whose output ended the
    pause. None if there was no change, if the pause isn't known yet, or if an earlier call has already returned the
    pause. The measured pause is 0.0 if no pause was seen, normally because no records arrived.
    """
    progress = job.progress
    watched = progress.pause
    if watched is None:
        return None
    watched.hear(job.known.values(), job.reports)
    if job.state is not DeploymentState.RUNNING:
        return None
    found = watched.measured(job.known.values(), now - progress.unchanged_since, now - progress.changing_since)
    if found is None:
        return None
    progress.pause = None
    if found.seconds:
        progress.shown = progress.shown.after(watched, found.seconds, found.lost)
    return found.seconds, watched.foretold, found.lane
