"""Failed: a lane has failed, and all other lanes have ended. The deployment keeps the failed lane's error. When the
deployment is started again, its open lanes are also started again.
"""

from __future__ import annotations

from anabranch.coordinator.jobs.states.snapshot import Snapshot, Transition
from anabranch.model.deployment_state import DeploymentState


def step(snapshot: Snapshot) -> Transition | None:
    if snapshot.start_wanted:
        return Transition(to=DeploymentState.STARTING, why="the user started it again after it failed")
    return None
