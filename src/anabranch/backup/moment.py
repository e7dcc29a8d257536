"""A job at one moment: whether it can be backed up, and which lanes and folders it has."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from anabranch.coordinator.maintenance import stopped_job
from anabranch.coordinator.store.moving import JobRows
from anabranch.errors import ConflictError
from anabranch.model.deployment_state import DeploymentState
from anabranch.model.document import decode
from anabranch.model.lane import Lane, LaneState, open_lanes

__all__ = ["Moment"]

_SETTLED = {DeploymentState.RUNNING, DeploymentState.STOPPED, DeploymentState.FAILED, DeploymentState.DRAINED}


@dataclass(frozen=True)
class Moment:
    """A job at one moment. ``rows`` are all rows that the store had about the job."""

    job: str
    rows: JobRows

    @cached_property
    def lanes(self) -> dict[str, Lane]:
        """All lanes that the job has ever had, by id."""
        return {row["id"]: decode(row["record"], Lane) for row in self.rows["lanes"]}

    @property
    def state(self) -> DeploymentState:
        """The state of the last deployment."""
        return DeploymentState(self._deployment["state"])

    @property
    def taking_part(self) -> list[Lane]:
        """The lanes that aren't closed; for a drained job, the lanes of its last deployment."""
        if self.state is not DeploymentState.DRAINED:
            return open_lanes(self.lanes.values())
        return [lane for lane in self.lanes.values() if lane.deployment == self._deployment["id"]]

    @property
    def folders(self) -> list[tuple[Lane, int]]:
        """The folders that the job needs in order to continue, as pairs of the lane and the epoch under which the
        folder was made."""
        needed = stopped_job.needed_folders(self.lanes) | {(lane.id, lane.folder_epoch) for lane in self.taking_part}
        return [(self.lanes[lane], epoch) for lane, epoch in sorted(needed) if epoch]

    def why_not(self) -> str:
        """Why the job can't be backed up yet; empty if the job can be backed up.

        Raises:
            ConflictError: there is nothing to back up.
        """
        if self.state is DeploymentState.RESET:
            raise ConflictError(f"job {self.job!r} was reset: it has nothing to back up", "start it first")
        if self.state not in _SETTLED:
            return f"it is {self.state}"
        open_ones = open_lanes(self.lanes.values())
        silent = next((lane.id for lane in open_ones if lane.unfenced), "")
        if silent:
            return f"a former process may still write for lane {silent}"
        closing = next((lane.id for lane in open_ones if lane.state is LaneState.CLOSING), "")
        return f"lane {closing} closes" if closing and self.state is DeploymentState.RUNNING else ""

    def is_followed_by(self, later: Moment) -> bool:
        """Whether a backup that was begun at this moment can be completed at the moment ``later``. This requires that
        the epoch, the generations and the lanes are the same at both moments, and that the job was draining or drained
        at both or at neither. The lanes' progress can differ."""
        return _identity(self) == _identity(later)

    @property
    def _deployment(self) -> dict[str, Any]:
        return dict(max(self.rows["deployments"], key=lambda row: row["id"]))


def _identity(moment: Moment) -> Iterable[object]:
    generations = [(row["deployment"], row["generation"]) for row in moment.rows["models"]]
    lanes = [(lane.id, lane.folder_epoch, lane.state is LaneState.CLOSED) for lane in moment.lanes.values()]
    drains = moment.state in {DeploymentState.DRAINING, DeploymentState.DRAINED}
    return moment.rows["jobs"][0]["epoch"], sorted(generations), sorted(lanes), drains
