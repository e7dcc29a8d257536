"""Stopping: all lanes should end. Running lanes end at a batch boundary. If the job is stopped at once, running lanes
break off their batches.
"""

from __future__ import annotations

from anabranch.coordinator.jobs.states.snapshot import Snapshot, Transition
from anabranch.model.deployment_state import DeploymentState


def step(snapshot: Snapshot) -> Transition | None:
    if snapshot.start_wanted:
        return Transition(to=DeploymentState.STARTING, why="the process that was stopping it died")
    if not snapshot.lanes:
        return Transition(to=DeploymentState.DRAINED, why="all its lanes drained before they could be stopped")
    if any(lane.held for lane in snapshot.lanes):
        return None
    if snapshot.failure is not None:
        return Transition(
            to=DeploymentState.FAILED, why="a lane failed, and the others have ended", error=snapshot.failure
        )
    return Transition(to=DeploymentState.STOPPED, why="all its lanes have ended")
