"""Draining: lanes read their inputs up to the drain's end offsets, and finish stage by stage. If the drain is
cancelled, the deployment gets the state "running" if all lanes are up, and the state "starting" otherwise.
"""

from __future__ import annotations

from anabranch.coordinator.jobs.states.snapshot import Snapshot, Transition, interrupted
from anabranch.model.deployment_state import DeploymentState


def step(snapshot: Snapshot) -> Transition | None:
    ended = interrupted(snapshot, "was draining")
    if ended is not None:
        return ended
    if not snapshot.lanes:
        return Transition(to=DeploymentState.DRAINED, why="all its lanes have drained")
    if not snapshot.drains:
        to = DeploymentState.RUNNING if snapshot.up else DeploymentState.STARTING
        return Transition(to=to, why="the drain was cancelled")
    if snapshot.failure is not None:
        # The lanes downstream would wait for the failed lane's output.
        return Transition(to=DeploymentState.STOPPING, why="a lane failed", error=snapshot.failure)
    return None
