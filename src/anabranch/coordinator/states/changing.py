"""Changing: some lanes are closed, others go on from them. The generation is the next one already."""

from __future__ import annotations

from anabranch.coordinator.states.snapshot import DeploymentState, Snapshot, Transition, interrupted


def step(snapshot: Snapshot) -> Transition | None:
    ended = interrupted(snapshot, "was changing")
    if ended is not None:
        return ended
    if snapshot.up:
        return Transition(to=DeploymentState.RUNNING, why="the change is done")
    return None
