"""Makes the events about a job's changes, states and lanes. From these events, :mod:`anabranch.coordinator.events`
derives the records of changes and the times of lanes. Pure functions. ``at`` is the current time in seconds since 1970.
"""

from __future__ import annotations

from typing import Literal

from anabranch.coordinator.jobs.next_deployment import NextDeployment
from anabranch.coordinator.jobs.running_job import RunningJob
from anabranch.coordinator.jobs.transitions import NextGeneration
from anabranch.coordinator.store import ChangeStep, Event
from anabranch.model.deployment_state import DeploymentState
from anabranch.model.lane import Lane
from anabranch.protocol.commands import ChangeResult
from anabranch.views.events import EventKind
from anabranch.views.lane_times import MarkKind

__all__ = ["HASTE", "STARTED_AGAIN", "began", "hastened", "measured", "moved", "of_lane", "predicted", "stays"]

STARTED_AGAIN = "the job was started again"
"""The reason that is recorded when processes lose their seats because their stopped job is started again."""
HASTE = "batches that are written at least once, or were given to foreach_batch, may be repeated"


def began(running_job: RunningJob, planned: NextGeneration | NextDeployment, at: float, now: bool) -> Event:
    """The event for the beginning of a planned change. If ``now`` is True, the change doesn't wait for batches."""
    undoes = planned.kind == "undo"
    reasons = (f"cancelled: {planned.why}" if undoes else planned.why, f"without waiting: {HASTE}" if now else "")
    if isinstance(planned, NextGeneration):
        what, generation, deployment = f"generation {planned.model.generation}", planned.model.generation, planned.model
    else:
        what, generation, deployment = planned.what, 0, planned.start.model
    return Event(
        kind="autoscale" if planned.who == "autoscale" else "change",
        job=running_job.job,
        at=at,
        who=planned.who,
        what=f"{running_job.state.value} → {DeploymentState.CHANGING.value}, {what}",
        why="; ".join(each for each in reasons if each),
        generation=generation,
        change=ChangeStep(
            kind=planned.kind, deployment=deployment.run_id, undone_because=planned.why if undoes else ""
        ),
    )


def predicted(job: str, at: float, result: ChangeResult) -> list[Event]:
    """A list with the event about the predicted effects of a change. If no lane closes, the list is empty."""
    closing, starting, pause = len(result.closing), len(result.lanes), round(result.pause, 1)
    event = Event(
        kind="change",
        job=job,
        at=at,
        who="coordinator",
        what=f"output is expected to pause for {pause:.1f} s",
        why=f"{closing} lane(s) close, and {starting} start",
        change=ChangeStep(closing=closing, starting=starting, predicted_pause=pause),
    )
    return [event] if closing else []


def measured(job: str, at: float, pause: float, expected: float, lane: str = "") -> Event:
    """The event about the measured and the expected pause of a change, in seconds. The measured pause is 0.0 if no
    pause was seen, normally because no records arrived. ``lane`` is the new lane whose output ended the pause."""
    pause, expected = max(0.1, round(pause, 1)) if pause else 0.0, round(expected, 1)
    return Event(
        kind="change",
        job=job,
        at=at,
        who="coordinator",
        what=f"output paused for {pause:.1f} s" if pause else "no records arrived during the change",
        why=f"{expected:.1f} s was expected",
        change=ChangeStep(measured_pause=pause, predicted_pause=expected, paused_lane=lane if pause else None),
    )


def moved(
    job: str,
    at: float,
    before: DeploymentState,
    to: DeploymentState,
    why: str,
    *,
    who: str = "coordinator",
    error: str | None = None,
    seconds: float | None = None,
) -> Event:
    """The event for a job's move from one state to another. If ``before`` is CHANGING, the event also records how the
    change ended. If the job is now running without an error, the change is done. Otherwise, it has failed.

    Args:
        error: the job's error after the move, if any.
        seconds: how long the change took, if this move ends a change successfully; otherwise None.
    """
    change = None
    if before is DeploymentState.CHANGING:
        took = None if seconds is None else round(seconds, 1)
        is_done = error is None and to is DeploymentState.RUNNING
        change = ChangeStep(outcome="done" if is_done else "failed", seconds=took)
    what = f"{before.value} → {to.value}"
    return Event(kind="state", job=job, at=at, who=who, what=what, why=why, change=change)


def of_lane(
    lane: Lane,
    at: float,
    what: str,
    why: str = "",
    *,
    kind: EventKind = "lane",
    who: str = "coordinator",
    container: str = "",
    mark: MarkKind | None = None,
) -> Event:
    """An event about a lane. ``what`` is the rest of a sentence that begins with "lane" and the lane's id. If a
    container has reported the event, ``container`` takes the place of ``who``."""
    return Event(
        kind=kind,
        job=lane.job,
        at=at,
        who=container or who,
        what=f"lane {lane.id} {what}",
        why=why,
        lane=lane.id,
        container=container,
        mark=mark,
    )


def hastened(job: str, at: float, kind: Literal["change", "state"], subject: str) -> Event:
    """The event for a change or a stop (the ``subject``) that no longer waits for batches."""
    return Event(kind=kind, job=job, at=at, who="user", what=f"the {subject} no longer waits for batches", why=HASTE)


def stays(job: str, at: float, why: str) -> Event:
    """The event for a change that can't be undone, and so stays in effect although a lane can't start."""
    return Event(kind="change", job=job, at=at, who="coordinator", what="the change can't be undone", why=why)
