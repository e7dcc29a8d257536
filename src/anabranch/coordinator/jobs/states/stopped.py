"""Stopped: all lanes have ended. When the deployment is started again, it continues from its positions and state."""

from __future__ import annotations

from anabranch.coordinator.jobs.states.snapshot import Snapshot, Transition
from anabranch.model.deployment_state import DeploymentState


def step(snapshot: Snapshot) -> Transition | None:
    if snapshot.start_wanted:
        return Transition(to=DeploymentState.STARTING, why="the user started it again")
    return None
