"""Running: all lanes have been seen running. One that failed is left alone while others have something to do."""

from __future__ import annotations

from anabranch.coordinator.states.snapshot import DeploymentState, Snapshot, Transition


def step(snapshot: Snapshot) -> Transition | None:
    if snapshot.start_wanted:
        return Transition(to=DeploymentState.STARTING, why="the process that ran it died")
    if snapshot.broken:
        return Transition(to=DeploymentState.STOPPING, why="all lanes that had to do failed", error=snapshot.failure)
    if snapshot.stop_wanted:
        return Transition(to=DeploymentState.STOPPING, why="the user stopped it", error=snapshot.failure)
    if snapshot.until_caught_up and all(lane.ended for lane in snapshot.lanes):
        return Transition(to=DeploymentState.STOPPING, why="all its lanes have caught up")
    return None
