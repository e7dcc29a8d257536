"""The events of a job that was scaled, as a coordinator writes them."""

from __future__ import annotations

from anabranch.coordinator.jobs import job_events
from anabranch.coordinator.store import ChangeStep, Event
from anabranch.model.deployment_state import DeploymentState


def begun(job: str, at: float) -> list[Event]:
    """It begins: two lanes close, two follow."""
    what, why = "running → changing, generation 2", "factor 4 → 8, containers 2 → 2"
    step = ChangeStep(kind="scale", deployment=1)
    first = Event(kind="change", job=job, at=at, who="user", what=what, why=why, generation=2, change=step)
    figures = ChangeStep(closing=2, starting=2, predicted_pause=1.2)
    what, why = "output is expected to pause for 1.2 s", "2 lane(s) close, and 2 start"
    return [first, Event(kind="change", job=job, at=at, who="coordinator", what=what, why=why, change=figures)]


def done(job: str, at: float) -> list[Event]:
    """It is done, and output paused for longer than that."""
    states, why = (DeploymentState.CHANGING, DeploymentState.RUNNING), "the change is done, in 4.1 s"
    return [job_events.moved(job, at, *states, why, seconds=4.1), job_events.measured(job, at, 1.6, 1.2)]
