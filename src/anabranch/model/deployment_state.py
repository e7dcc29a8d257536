"""The states of a deployment (docs/contributing/architecture.md, "The states of a deployment")."""

from __future__ import annotations

import enum

__all__ = ["DeploymentState"]


class DeploymentState(enum.StrEnum):
    """The state of a deployment. The values appear in the store, in ``status`` and in events."""

    PLANNED = "planned"
    STARTING = "starting"
    RUNNING = "running"
    CHANGING = "changing"
    DRAINING = "draining"
    DRAINED = "drained"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"
    RESET = "reset"

    @property
    def active(self) -> bool:
        return self.runs or self is DeploymentState.STOPPING

    @property
    def is_over(self) -> bool:
        """Whether the next start makes a new deployment, with its own lanes."""
        return self in {DeploymentState.DRAINED, DeploymentState.RESET}

    @property
    def runs(self) -> bool:
        """Whether lanes should run in this state."""
        return self in {
            DeploymentState.STARTING,
            DeploymentState.RUNNING,
            DeploymentState.CHANGING,
            DeploymentState.DRAINING,
        }
