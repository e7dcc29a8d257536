"""Changes of a running job, and what comes of them: scale, expand, assign, rewind."""

from __future__ import annotations

from typing import Literal

from anabranch.model.document import Document
from anabranch.model.lane import Lane
from anabranch.model.outline import Basis, Outline
from anabranch.model.traffic import Traffic

__all__ = ["AssignRequest", "ExpandRequest", "RewindRequest", "RewindResult", "ScaleRequest", "ScaleResult"]


class ScaleRequest(Document, frozen=True, kw_only=True):
    """A job is to have another factor, or number of containers; None: as it is. ``request``: said twice, it is the
    same wish. ``dry``: only find out what that would change. ``now``: it doesn't wait for batches that write at least
    once, which is done twice then. ``brief``: say what comes of it as an outline, without whole lanes. ``expect``:
    what the job was planned for: if it isn't so any more, it isn't changed."""

    factor: int | None = None
    containers: int | None = None
    request: str = ""
    dry: bool = False
    now: bool = False
    brief: bool = False
    expect: Basis | None = None


class ExpandRequest(Document, frozen=True, kw_only=True):
    """A job is to go along with its inputs, whose partitions have become more; fields as in :class:`ScaleRequest`."""

    request: str = ""
    dry: bool = False
    now: bool = False
    brief: bool = False
    expect: Basis | None = None


class AssignRequest(Document, frozen=True, kw_only=True):
    """A job's tasks are to go where they should be by the racks as they are now; fields as in :class:`ScaleRequest`."""

    request: str = ""
    dry: bool = False
    now: bool = False
    brief: bool = False
    expect: Basis | None = None


class ScaleResult(Document, frozen=True, kw_only=True):
    """What comes of it: the generation, and the lanes that are closed and that follow them; none: it is so already.

    ``partitions``: of the streams that have more of them than before, by ``system/stream``.
    ``pause``: for how many seconds, as expected, there is no output in between; ``free``: the seats that some of them
    are for, and that no container has: they begin once one has.
    ``before`` and ``after``: what is read from which rack, where racks are known; ``why_not``: why they don't count,
    where they should. ``moved``: tasks that get another seat, where nothing else changes.
    ``basis``: what it was planned for, to be given back as what is expected. ``outline``: its lanes, if it is to be
    brief; ``closing`` and ``lanes`` are empty then.
    """

    generation: int
    factor: int
    containers: int
    partitions: dict[str, int] = {}
    closing: tuple[Lane, ...] = ()
    lanes: tuple[Lane, ...] = ()
    pause: float = 0.0
    basis: Basis | None = None
    outline: Outline | None = None
    free: tuple[str, ...] = ()
    before: Traffic | None = None
    after: Traffic | None = None
    why_not: str = ""
    moved: int = 0


class RewindRequest(Document, frozen=True, kw_only=True):
    """A job is to read its source streams again from ``to``: "earliest", a time (ISO 8601, with its offset from UTC),
    or offsets by the texts of whole SSPs. ``state``: "keep" or "clear" what the operators behind them hold; None: there
    is none. ``request``, ``dry`` and ``now`` as in :class:`ScaleRequest`."""

    to: str | dict[str, int]
    state: Literal["keep", "clear"] | None = None
    request: str = ""
    dry: bool = False
    now: bool = False
    brief: bool = False
    expect: Basis | None = None


class RewindResult(Document, frozen=True, kw_only=True):
    """What comes of it: the generation, from where the SSPs are read again, and the lanes that are closed and that
    follow them; none: the same wish was heard before. ``pause`` as in :class:`ScaleResult`."""

    generation: int
    to: dict[str, int] = {}
    closing: tuple[Lane, ...] = ()
    lanes: tuple[Lane, ...] = ()
    pause: float = 0.0
    basis: Basis | None = None
    outline: Outline | None = None
