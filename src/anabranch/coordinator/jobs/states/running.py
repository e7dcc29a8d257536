"""Running: all lanes should run, apart from those that have failed or caught up. A failed lane isn't started again in
this state.
"""

from __future__ import annotations

from anabranch.coordinator.jobs.states.snapshot import Snapshot, Transition, interrupted
from anabranch.model.deployment_state import DeploymentState


def step(snapshot: Snapshot) -> Transition | None:
    ended = interrupted(snapshot, "ran")
    if ended is not None:
        return ended
    if snapshot.drains:
        return Transition(to=DeploymentState.DRAINING, why="the user requested a drain")
    if snapshot.until_caught_up and all(lane.ended for lane in snapshot.lanes):
        return Transition(to=DeploymentState.STOPPING, why="all its lanes have caught up")
    return None
