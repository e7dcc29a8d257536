"""Planned: the deployment is stored, but nothing runs yet."""

from __future__ import annotations

from anabranch.coordinator.jobs.states.snapshot import Snapshot, Transition
from anabranch.model.deployment_state import DeploymentState


def step(snapshot: Snapshot) -> Transition | None:
    if snapshot.start_wanted:
        return Transition(to=DeploymentState.STARTING, why="the user started it")
    return None
