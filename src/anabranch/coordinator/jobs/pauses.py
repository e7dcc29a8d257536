"""How long output stood still for a change: measured once the job runs, beside what was foretold."""

from __future__ import annotations

from anabranch.coordinator import change_log
from anabranch.coordinator.jobs.running_job import RunningJob
from anabranch.model.deployment_state import DeploymentState

__all__ = ["measured"]


def measured(job: RunningJob, now: float) -> tuple[str, str] | None:
    """What the log says of the last change, and why; None: that isn't known yet, or was said."""
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
