"""The life of a deployment: a module for each state, whose ``step`` determines the next state."""

from anabranch.coordinator.jobs.states import (
    changing,
    drained,
    draining,
    failed,
    planned,
    reset,
    running,
    starting,
    stopped,
    stopping,
)
from anabranch.coordinator.jobs.states.snapshot import LaneView, Snapshot, Transition
from anabranch.model.deployment_state import DeploymentState

__all__ = ["LaneView", "Snapshot", "Transition", "started", "step"]

_STEPS = {
    DeploymentState.PLANNED: planned.step,
    DeploymentState.STARTING: starting.step,
    DeploymentState.RUNNING: running.step,
    DeploymentState.CHANGING: changing.step,
    DeploymentState.DRAINING: draining.step,
    DeploymentState.DRAINED: drained.step,
    DeploymentState.STOPPING: stopping.step,
    DeploymentState.STOPPED: stopped.step,
    DeploymentState.FAILED: failed.step,
    DeploymentState.RESET: reset.step,
}


def step(snapshot: Snapshot) -> Transition | None:
    """The next transition of a deployment; None if its state doesn't change."""
    return _STEPS[snapshot.state](snapshot)


def started(state: DeploymentState) -> Transition:
    """The transition when a deployment in the state ``state``, neither DRAINED nor RESET, is started."""
    transition = step(Snapshot(state=state, start_wanted=True))
    assert transition is not None
    return transition
