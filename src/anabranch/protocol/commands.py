"""Requests to change a running job, and their results: scale, expand, assign, rewind. Deploy and rollback are in
:mod:`anabranch.protocol.deployment`.
"""

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
    """What a rewind does with the state downstream of the streams that are read again."""

    KEEP = "keep"
    CLEAR = "clear"


class ChangeRequest(Document, frozen=True, kw_only=True):
    """The fields of every request to change a running job."""

    request: str = ""
    """The request's id. If the same id is sent twice, the request is carried out only once."""
    dry: bool = False
    """Only determine what would change."""
    now: bool = False
    """Break off running batches rather than wait for them, even if they write at-least-once output or call a
    ``foreach_batch`` function. These batches run again, so part of their output can be written twice.
    """
    brief: bool = False
    """Return the lanes only in outline (:attr:`ChangeResult.outline`)."""
    expect: Basis | None = None
    """The state of the job for which the change was planned. If the job's state has changed since then, the request is
    refused.
    """


class ChangeResult(Document, frozen=True, kw_only=True):
    """The fields of the result of every change to a running job."""

    closing: tuple[Lane, ...] = ()
    """The lanes that are closed; empty if the job is already as requested."""
    lanes: tuple[Lane, ...] = ()
    """The lanes that follow the closed lanes."""
    pause: float = 0.0
    """How many seconds output is expected to pause."""
    basis: Basis | None = None
    """The state of the job for which the change was planned, to be sent back as ``expect``."""
    repeated: bool = False
    """Whether the request had already been carried out when it arrived. If so, the lanes aren't listed again."""
    outline: Outline | None = None
    """A summary of the lanes, if the request was ``brief``. In this case, ``closing`` and ``lanes`` are empty."""


class TaskMoveRequest(ChangeRequest, frozen=True, kw_only=True):
    """The fields of every request that can move tasks to other seats."""

    moves: bool = False
    """With ``dry``: also return which buckets move to another seat."""


class ScaleRequest(TaskMoveRequest, frozen=True, kw_only=True):
    """Change a job's factor, or its number of containers, or both."""

    factor: int | None = None
    """The new factor; None if the factor stays the same."""
    containers: int | None = None
    """The new number of containers; None if it stays the same."""


class ExpandRequest(TaskMoveRequest, frozen=True, kw_only=True):
    """Adapt a job to partitions added to its inputs."""


class AssignRequest(TaskMoveRequest, frozen=True, kw_only=True):
    """Move a job's tasks to the seats that suit the current racks best."""


class ScaleResult(ChangeResult, frozen=True, kw_only=True):
    """The effects of a request to scale, expand or assign."""

    generation: int
    factor: int
    containers: int
    partitions: dict[str, int] = {}
    """The partition counts, by ``system/stream``, of the streams to which partitions were added, and of streams that
    the job begins to read because they match a pattern.
    """
    free: tuple[str, ...] = ()
    """The new lanes' seats that no container has taken yet. These lanes wait until containers take the seats."""
    before: Traffic | None = None
    """The current traffic between racks, if racks are known."""
    after: Traffic | None = None
    """The traffic between racks after the change, if racks are known."""
    why_not: str = ""
    """Why racks aren't taken into account, although the settings ask for this."""
    moved: int = 0
    """How many tasks a request to assign moves to another seat; 0 for other requests."""
    moves: tuple[StageMoves, ...] = ()
    """Which buckets move to another seat, by stage, if the request asked for ``moves``."""


class RewindRequest(ChangeRequest, frozen=True, kw_only=True):
    """Read a job's source streams again from earlier offsets."""

    to: str | dict[str, int]
    """Where to read from: ``earliest``, a time (ISO 8601 with an offset from UTC), or offsets, keyed by whole SSPs such
    as ``kafka/flights/3``.
    """
    state: StateHandling | None = None
    """What happens to state. None is allowed only if no operator downstream of the rewound streams has state."""


class RewindResult(ChangeResult, frozen=True, kw_only=True):
    """The effects of a rewind."""

    generation: int
    to: dict[str, int] = {}
    """The offsets from which the streams are read again, keyed by whole SSPs such as ``kafka/flights/3``."""
