"""Starting: lanes are wanted, not all of them run yet."""

from __future__ import annotations

from anabranch.coordinator.states.snapshot import DeploymentState, Snapshot, Transition


def step(snapshot: Snapshot) -> Transition | None:
    if snapshot.start_wanted:
        return Transition(to=DeploymentState.STARTING, why="the process that was starting it died")
    if snapshot.failure is not None:
        return Transition(to=DeploymentState.STOPPING, why="a lane failed", error=snapshot.failure)
    if snapshot.stop_wanted:
        return Transition(to=DeploymentState.STOPPING, why="the user stopped it")
    if all(lane.running or (lane.ended and snapshot.until_caught_up) for lane in snapshot.lanes):
        return Transition(to=DeploymentState.RUNNING, why="all its lanes run")
    return None
