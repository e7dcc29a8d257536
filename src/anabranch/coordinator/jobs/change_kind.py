"""Says where and how the new lanes of a change start, which determines how long the change pauses output."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import StrEnum

from anabranch.model.lane import Lane
from anabranch.model.ssp import SSP

__all__ = ["Kind", "kind_of"]


class Kind(StrEnum):
    """Where and how the new lanes of a change start. The more their containers must load and compile for this, the
    longer the change pauses output.
    """

    SAME = "same"
    """In the same containers and with the same factor."""
    FACTOR = "factor"
    """In the same containers, with another factor."""
    EXPANDED = "expanded"
    """In the same containers, with other partitions. Their queries can't be prestarted."""
    REWOUND = "rewound"
    """In the same containers, but some of them not where their predecessors ended. Their queries can't be prestarted.
    """
    MOVED = "moved"
    """In containers that have run lanes of the job, but not in exactly those that had the closing lanes."""
    VERSION = "version"
    """With another version of the job, in containers that have been started for it."""
    NEW = "new"
    """At least one lane in a container that has run no lane of the job."""


def kind_of(closing: Collection[Lane], following: Collection[Lane], present: Iterable[Lane] = ()) -> Kind:
    """The kind of a change, given the lanes that close, the lanes that start, and all lanes before the change."""
    if {lane.deployment for lane in closing} != {lane.deployment for lane in following}:
        return Kind.VERSION
    former, next_seats = {lane.seat for lane in closing}, {lane.seat for lane in following}
    if not next_seats <= former | {lane.seat for lane in present}:
        return Kind.NEW
    if next_seats != former:
        return Kind.MOVED
    if any(lane.rewind is not None for lane in following):
        return Kind.REWOUND
    if _read(closing) != _read(following):
        return Kind.EXPANDED
    return Kind.SAME if {lane.factor for lane in closing} == {lane.factor for lane in following} else Kind.FACTOR


def _read(lanes: Iterable[Lane]) -> set[SSP]:
    return {ssp.whole for lane in lanes for ssp in (*lane.ssps, *lane.broadcast)}
