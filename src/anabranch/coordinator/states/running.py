"""Running: all lanes have been seen running. One that failed is left alone while others have something to do."""

from __future__ import annotations

from anabranch.coordinator.states.snapshot import DeploymentState, Snapshot, Transition, interrupted


def step(snapshot: Snapshot) -> Transition | None:
    ended = interrupted(snapshot, "ran")
    if ended is not None:
        return ended
    if snapshot.drains:
        return Transition(to=DeploymentState.DRAINING, why="the user lets it drain")
    if snapshot.until_caught_up and all(lane.ended for lane in snapshot.lanes):
        return Transition(to=DeploymentState.STOPPING, why="all its lanes have caught up")
    return None
