"""How long output paused for a change: measured once the job runs, and logged next to the prediction."""

from __future__ import annotations

from anabranch.coordinator.events import change_log
from anabranch.coordinator.jobs.running_job import RunningJob
from anabranch.model.deployment_state import DeploymentState

__all__ = ["measured"]


def measured(job: RunningJob, now: float) -> tuple[str, str] | None:
    """The log entry for the last change, and its reason; None: the pause isn't known yet, or was logged before."""
    progress = job.progress
    watched = progress.pause
    if watched is None:
        return None
    watched.hear(job.known.values(), job.reports)
    if job.state is not DeploymentState.RUNNING:
        return None
    pause = watched.measured(job.known.values(), now - progress.unchanged_since, now - progress.changing_since)
    if pause is None:
        return None
    progress.pause = None
    if pause:
        progress.shown = progress.shown.after(watched, pause)
    return change_log.measurement(pause, watched.foretold)
