"""Starting: lanes are wanted, not all of them run yet."""

from __future__ import annotations

from anabranch.coordinator.states.snapshot import DeploymentState, Snapshot, Transition


def step(snapshot: Snapshot) -> Transition | None:
    if snapshot.start_wanted:
        return Transition(to=DeploymentState.STARTING, why="the process that was starting it died")
    if snapshot.broken:
        return Transition(to=DeploymentState.STOPPING, why="all lanes that had to do failed", error=snapshot.failure)
    if snapshot.stop_wanted:
        return Transition(to=DeploymentState.STOPPING, why="the user stopped it", error=snapshot.failure)
    if snapshot.up:
        return Transition(to=DeploymentState.RUNNING, why="all its lanes run")
    return None
