"""Starting: the lanes should run, but not all of them are running yet."""

from __future__ import annotations

from anabranch.coordinator.jobs.states.snapshot import Snapshot, Transition, interrupted
from anabranch.model.deployment_state import DeploymentState


def step(snapshot: Snapshot) -> Transition | None:
    ended = interrupted(snapshot, "was starting")
    if ended is not None:
        return ended
    if snapshot.drains:
        return Transition(to=DeploymentState.DRAINING, why="the user requested a drain")
    if snapshot.up:
        return Transition(to=DeploymentState.RUNNING, why="all its lanes are running")
    return None
