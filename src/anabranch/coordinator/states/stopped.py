"""Stopped: it goes on where it was when it is started again."""

from __future__ import annotations

from anabranch.coordinator.states.snapshot import DeploymentState, Snapshot, Transition


def step(snapshot: Snapshot) -> Transition | None:
    if snapshot.start_wanted:
        return Transition(to=DeploymentState.STARTING, why="the user started it again")
    return None
