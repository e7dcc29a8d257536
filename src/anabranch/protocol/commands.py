"""Changes of a running job, and their results: scale, expand, assign, rewind. Deploy is in ``deployment``."""

from __future__ import annotations

import enum

from anabranch.model.document import Document
from anabranch.model.lane import Lane
from anabranch.model.moves import StageMoves
from anabranch.model.outline import Basis, Outline
from anabranch.model.traffic import Traffic

__all__ = [
    "AssignRequest",
    "ChangeRequest",
    "ChangeResult",
    "ExpandRequest",
    "RewindRequest",
    "RewindResult",
    "ScaleRequest",
    "ScaleResult",
    "StateHandling",
    "TaskMoveRequest",
]


class StateHandling(enum.StrEnum):
    """What happens in a rewind to the state of the operators downstream of the streams that are read again."""

    KEEP = "keep"
    CLEAR = "clear"


class ChangeRequest(Document, frozen=True, kw_only=True):
    """The fields of every request to change a running job."""

    request: str = ""
    """The request's id. If the same id is sent twice, the request is carried out once."""
    dry: bool = False
    """Only determine what would change."""
    now: bool = False
    """Don't wait for batches that write at least once; their output is then written twice."""
    brief: bool = False
    """Give the result as an outline, without complete lanes."""
    expect: Basis | None = None
    """The state of the job for which the change was planned. If the job has changed since, nothing is changed."""


class ChangeResult(Document, frozen=True, kw_only=True):
    """The fields of the result of every change of a running job."""

    closing: tuple[Lane, ...] = ()
    """The lanes that are closed. None if the job is already as requested."""
    lanes: tuple[Lane, ...] = ()
    """The lanes that continue them."""
    pause: float = 0.0
    """The expected seconds without output in between."""
    basis: Basis | None = None
    """The state of the job for which the change was planned, to be sent back as ``expect``."""
    outline: Outline | None = None
    """The lanes, if the request was ``brief``; ``closing`` and ``lanes`` are then empty."""


class TaskMoveRequest(ChangeRequest, frozen=True, kw_only=True):
    """The fields of every request that gives tasks other seats."""

    moves: bool = False
    """With ``dry``: also return which buckets get another seat."""


class ScaleRequest(TaskMoveRequest, frozen=True, kw_only=True):
    """Change a job's factor, or its number of containers, or both."""

    factor: int | None = None
    """The new factor; None: unchanged."""
    containers: int | None = None
    """The new number of containers; None: unchanged."""


class ExpandRequest(TaskMoveRequest, frozen=True, kw_only=True):
    """Adapt a job to partitions added to its inputs."""


class AssignRequest(TaskMoveRequest, frozen=True, kw_only=True):
    """Move a job's tasks to the seats that suit the present racks best."""


class ScaleResult(ChangeResult, frozen=True, kw_only=True):
    """What a scale, expand or assign changes."""

    generation: int
    factor: int
    containers: int
    partitions: dict[str, int] = {}
    """The new partition counts of the streams that have more than before, by ``system/stream``."""
    free: tuple[str, ...] = ()
    """The seats of new lanes that no container has. These lanes wait until a container takes the seat."""
    before: Traffic | None = None
    """The present traffic between racks, if racks are known."""
    after: Traffic | None = None
    """The traffic between racks after the change, if racks are known."""
    why_not: str = ""
    """Why racks aren't taken into account although the settings ask for it."""
    moved: int = 0
    """The tasks that get another seat, if nothing else changes."""
    moves: tuple[StageMoves, ...] = ()
    """Which buckets get another seat, by stage, if the request asked for ``moves``."""


class RewindRequest(ChangeRequest, frozen=True, kw_only=True):
    """Read a job's source streams again from earlier offsets."""

    to: str | dict[str, int]
    """``earliest``, a time (ISO 8601 with its offset from UTC), or offsets by whole SSP in text form."""
    state: StateHandling | None = None
    """What happens to state; None: there is no state downstream of the streams."""


class RewindResult(ChangeResult, frozen=True, kw_only=True):
    """What a rewind changes."""

    generation: int
    to: dict[str, int] = {}
    """The offsets from which the streams are read again, by whole SSP in text form."""
