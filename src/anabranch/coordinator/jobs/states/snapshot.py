"""The input of a state's step, and its result."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from anabranch.model.deployment_state import DeploymentState

__all__ = ["LaneView", "Snapshot", "Transition", "interrupted"]


class LaneView(msgspec.Struct, frozen=True, kw_only=True):
    """A lane that isn't closed, in this run: it runs, has ended, is still held by a live container, or has failed with
    an error. ``starved``: whether a lane upstream of it failed, so that it won't reach the end of its inputs.
    ``closing``: whether others continue from it once it is closed.
    """

    id: str
    running: bool = False
    ended: bool = False
    held: bool = False
    error: str | None = None
    starved: bool = False
    closing: bool = False


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """A deployment at one moment. ``error``: the first error of any lane. ``wanted``: whether the user wants it to run.
    ``drains``: whether the user wants it to drain, and it hasn't finished draining.
    """

    state: DeploymentState
    lanes: tuple[LaneView, ...] = ()
    until_caught_up: bool = False
    start_wanted: bool = False
    stop_wanted: bool = False
    drains: bool = False
    error: str | None = None

    @property
    def failure(self) -> str | None:
        """The first error."""
        return self.error or next((lane.error for lane in self.lanes if lane.error is not None), None)

    @property
    def up(self) -> bool:
        """Whether no lane is closing, and all others run as far as they can."""
        return all(
            not lane.closing and (lane.running or lane.error is not None or (lane.ended and self.until_caught_up))
            for lane in self.lanes
        )

    @property
    def broken(self) -> bool:
        """Whether lanes have failed, and no other lane has anything to do."""
        idle = self.until_caught_up
        over = all(lane.error is not None or (idle and (lane.ended or lane.starved)) for lane in self.lanes)
        return over and self.failure is not None


@dataclass(frozen=True, kw_only=True)
class Transition:
    """A deployment's transition to the state ``to``, with an ``error`` that the deployment keeps."""

    to: DeploymentState
    why: str
    error: str | None = None


def interrupted(snapshot: Snapshot, doing: str) -> Transition | None:
    """The transition that ends a state in which lanes are wanted, if there is one. ``doing``: what the process was
    doing to the job, in case it has died.
    """
    if snapshot.start_wanted:
        return Transition(to=DeploymentState.STARTING, why=f"the process that {doing} it died")
    if snapshot.broken:
        return Transition(to=DeploymentState.STOPPING, why="all lanes that had to do failed", error=snapshot.failure)
    if snapshot.stop_wanted:
        return Transition(to=DeploymentState.STOPPING, why="the user stopped it", error=snapshot.failure)
    return None
