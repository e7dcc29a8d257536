"""The section ``[assignment]``."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from anabranch.config.section import Section

__all__ = ["AssignmentSettings"]


class AssignmentSettings(Section):
    """How tasks are assigned to seats, and how many standbys a lane has. Balance comes first: racks and costs are only
    used to choose among assignments that are equally well balanced. See
    :func:`anabranch.planning.assignment.assignor.seat`.
    """

    strategy: Literal["none", "min_traffic", "balance_subtopology"] = "none"
    """``none``: racks are ignored. ``min_traffic``: containers read as little as possible from other racks, in all
    stages together. ``balance_subtopology``: like ``min_traffic``, but the tasks of each stage are also divided evenly.
    """

    first: Literal["containers", "traffic"] = "containers"
    """Which goal takes precedence: that few containers read each partition (``containers``), or that containers read
    little from other racks (``traffic``)."""

    racks: list[str] = []
    """The racks of the seats, in order; the list is repeated if there are more seats. An empty entry stands for no
    rack. Used until containers report their own racks."""

    standbys: int = Field(default=0, ge=0, le=8)
    """The number of standbys of each stateful lane: copies of the lane's folder that other processes keep up to
    date."""

    traffic_cost: int = Field(default=10, ge=0, le=1_000_000_000)
    """The cost of each partition that a lane reads from another rack."""

    non_overlap_cost: int = Field(default=1, ge=0, le=1_000_000_000)
    """The cost of each task that moves."""
