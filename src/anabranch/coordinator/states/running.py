"""Running: all lanes have been seen running."""

from __future__ import annotations

from anabranch.coordinator.states.snapshot import DeploymentState, Snapshot, Transition


def step(snapshot: Snapshot) -> Transition | None:
    if snapshot.start_wanted:
        return Transition(to=DeploymentState.STARTING, why="the process that ran it died")
    if snapshot.failure is not None:
        return Transition(to=DeploymentState.STOPPING, why="a lane failed", error=snapshot.failure)
    if snapshot.stop_wanted:
        return Transition(to=DeploymentState.STOPPING, why="the user stopped it")
    if snapshot.until_caught_up and all(lane.ended for lane in snapshot.lanes):
        return Transition(to=DeploymentState.STOPPING, why="all its lanes have caught up")
    return None
