"""Classifies changes by where and how their new lanes start, which determines how long a change pauses output."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import StrEnum

from anabranch.model.lane import Lane
from anabranch.model.ssp import SSP

__all__ = ["Kind", "kind_of"]


class Kind(StrEnum):
    """Where and how the new lanes of a change start. The more the lanes' containers must load and compile, the longer
    the change pauses output.
    """

    SAME = "same"
    """The new lanes start in the containers of the closing lanes, with the same factor."""
    FACTOR = "factor"
    """The new lanes start in the containers of the closing lanes, with another factor."""
    EXPANDED = "expanded"
    """The new lanes start in the containers of the closing lanes, with other partitions. The new lanes' queries can't
    be prestarted.
    """
    REWOUND = "rewound"
    """The new lanes start in the containers of the closing lanes, but some of them don't begin where their predecessors
    ended. The new lanes' queries can't be prestarted.
    """
    MOVED = "moved"
    """The new lanes start only in containers that have run lanes of the job, but not in exactly the containers of the
    closing lanes.
    """
    VERSION = "version"
    """The new lanes run another version of the job, in containers that have been started for this version."""
    NEW = "new"
    """At least one new lane starts in a container that has run no lane of the job."""


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
