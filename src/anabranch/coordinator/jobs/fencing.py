"""Fences a lane's outputs. After an output has been fenced, nothing that the lane's former process writes to this
output becomes visible."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from anabranch import config as configuration
from anabranch.coordinator.jobs import job_events, troubles
from anabranch.coordinator.jobs.registry import JobRegistry
from anabranch.coordinator.jobs.running_job import RunningJob
from anabranch.coordinator.store import Store
from anabranch.model.lane import Lane
from anabranch.systems.systems import Systems

__all__ = ["Fence", "due", "fence", "note_failure", "settings_of"]


@dataclass(frozen=True)
class Fence:
    """A lane that must be fenced under its epoch, to shut out its former process. ``settings`` are the settings of the
    lane's deployment, because a later deployment's settings may lack outputs and systems that the lane writes to.
    """

    lane: Lane
    settings: Mapping[str, Any]


def due(store: Store, running_job: RunningJob) -> list[Fence]:
    """The lanes of a job that must be fenced now."""
    present = running_job.settings.given
    settings = {running_job.deployment: present}
    found = []
    for lane in running_job.lanes:
        if lane.unfenced:
            if lane.deployment not in settings:
                settings[lane.deployment] = settings_of(store, running_job.job, lane.deployment, present)
            found.append(Fence(lane, settings[lane.deployment]))
    return found


def note_failure(registry: JobRegistry, lane: Lane, why: str) -> None:
    """Record, with an event, that a lane can't be fenced yet. The job has a warning until the lane is fenced."""
    with registry.locked_as_seen() as jobs:
        if (running_job := jobs.get(lane.job)) is not None:
            progress = running_job.progress
            progress.unfenced = {**troubles.unfenced(running_job), (lane.id, lane.epoch): why}
    registry.store.note([job_events.of_lane(lane, registry.now(), "can't be fenced yet", why, kind="fence")])


def settings_of(store: Store, job: str, deployment: int, otherwise: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings that a former deployment's lanes ran with; ``otherwise`` if these settings aren't stored."""
    stored = store.deployment(job, deployment)
    program = None if stored is None else stored.any_program
    return otherwise if program is None or program.lacks else program.settings


def fence(lane: Lane, settings: Mapping[str, Any]) -> None:
    """Fence a lane under its epoch. The call can be repeated, for example after an error.

    Streams with at-least-once output and functions of ``foreach_batch`` can't be fenced. These outputs are skipped:
    the process that writes to them stops within its lease anyway. Tables of a user's class are also skipped, because
    the class isn't available here. The process that gets the lane fences these tables before it writes to them.

    Args:
        settings: the settings of the lane's deployment; see :class:`Fence`.

    Raises:
        AnabranchError: a system doesn't answer, or a process with a higher epoch owns the lane.
    """
    systems = Systems(configuration.of_job(lane.job, settings), lane.job)
    systems.fence(lane, lane.epoch, new=False if lane.ran else None)
    systems.fence_tables(lane, lane.epoch, new=False if lane.ran else None, foreign=False)
