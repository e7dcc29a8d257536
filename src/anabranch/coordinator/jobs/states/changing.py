"""Changing: lanes close, and other lanes continue from them. The deployment is already in the new generation."""

from __future__ import annotations

from anabranch.coordinator.jobs.states.snapshot import Snapshot, Transition, interrupted
from anabranch.model.deployment_state import DeploymentState


def step(snapshot: Snapshot) -> Transition | None:
    ended = interrupted(snapshot, "was changing")
    if ended is not None:
        return ended
    if snapshot.up:
        return Transition(to=DeploymentState.RUNNING, why="the change is done")
    return None
