"""Changing: some lanes are closed, others go on from them. The generation is the next one already."""

from __future__ import annotations

from anabranch.coordinator.states.snapshot import DeploymentState, Snapshot, Transition


def step(snapshot: Snapshot) -> Transition | None:
    if snapshot.start_wanted:
        return Transition(to=DeploymentState.STARTING, why="the process that was changing it died")
    if snapshot.broken:
        return Transition(to=DeploymentState.STOPPING, why="all lanes that had to do failed", error=snapshot.failure)
    if snapshot.stop_wanted:
        return Transition(to=DeploymentState.STOPPING, why="the user stopped it", error=snapshot.failure)
    if snapshot.up:
        return Transition(to=DeploymentState.RUNNING, why="the change is done")
    return None
