"""Defines the input and the result of a state's ``step``."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from anabranch.model.deployment_state import DeploymentState

__all__ = ["LaneView", "Snapshot", "Transition", "interrupted"]


class LaneView(msgspec.Struct, frozen=True, kw_only=True):
    """A lane that isn't closed."""

    id: str
    running: bool = False
    ended: bool = False
    """Whether the lane has ended because it had caught up."""
    held: bool = False
    """Whether a process may still be running the lane."""
    error: str | None = None
    """Why the lane failed; None if it hasn't failed."""
    starved: bool = False
    """Whether a failed lane upstream, or a failed predecessor, keeps this lane from reaching the end of its inputs."""
    closing: bool = False
    """Whether the lane should close to let its successors continue."""


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """A deployment at one moment."""

    state: DeploymentState
    lanes: tuple[LaneView, ...] = ()
    until_caught_up: bool = False
    start_wanted: bool = False
    """Whether the deployment should be started."""
    stop_wanted: bool = False
    """Whether a user wants the deployment to stop."""
    drains: bool = False
    """Whether a drain was requested, and hasn't been finished or cancelled."""
    error: str | None = None
    """The error that the deployment keeps."""

    @property
    def failure(self) -> str | None:
        """The error that the deployment keeps, or else the first error of any lane; None if there is no error."""
        return self.error or next((lane.error for lane in self.lanes if lane.error is not None), None)

    @property
    def up(self) -> bool:
        """Whether no lane is closing, and every lane is running, has failed, or has caught up."""
        return all(
            not lane.closing and (lane.running or lane.error is not None or (lane.ended and self.until_caught_up))
            for lane in self.lanes
        )

    @property
    def broken(self) -> bool:
        """Whether lanes have failed, and all other lanes have nothing more to do."""
        idle = self.until_caught_up
        over = all(lane.error is not None or (idle and (lane.ended or lane.starved)) for lane in self.lanes)
        return over and self.failure is not None


@dataclass(frozen=True, kw_only=True)
class Transition:
    """A deployment's transition to another state, and the error that the deployment keeps, if any."""

    to: DeploymentState
    why: str
    error: str | None = None


def interrupted(snapshot: Snapshot, doing: str) -> Transition | None:
    """The transition that interrupts a state in which lanes should run; None if the state isn't interrupted. If a start
    is wanted, the deployment starts again. Otherwise, it stops if it is ``broken``, or if a stop is wanted.

    Args:
        doing: what the former process was doing with the job, as part of the recorded reason for a new start. For
            example, "was draining" gives "the process that was draining it died".
    """
    if snapshot.start_wanted:
        return Transition(to=DeploymentState.STARTING, why=f"the process that {doing} it died")
    if snapshot.broken:
        return Transition(
            to=DeploymentState.STOPPING, why="all lanes that still had work have failed", error=snapshot.failure
        )
    if snapshot.stop_wanted:
        return Transition(to=DeploymentState.STOPPING, why="the user stopped it", error=snapshot.failure)
    return None
