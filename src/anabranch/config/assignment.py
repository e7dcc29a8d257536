"""The section ``[assignment]``."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from anabranch.config.section import Section

__all__ = ["AssignmentSettings"]


class AssignmentSettings(Section):
    """How tasks are assigned to container seats, once every container has an equal share."""

    strategy: Literal["none", "min_traffic", "balance_subtopology"] = "none"
    """``none``: racks are ignored. ``min_traffic``: as little as possible is read from other racks, over all stages
    together. ``balance_subtopology``: the same, with each stage balanced, too.
    """

    first: Literal["containers", "traffic"] = "containers"
    """What takes precedence: reading each partition in few containers, or little traffic between racks."""

    racks: list[str] = []
    """The racks of the seats, in turn, until containers report their own."""

    standbys: int = Field(default=0, ge=0, le=8)
    """How many copies of each stateful lane's folder other processes keep up to date, for the lane's successors."""

    traffic_cost: int = Field(default=10, ge=0, le=1_000_000_000)
    """The cost of each partition that a container reads from another rack."""

    non_overlap_cost: int = Field(default=1, ge=0, le=1_000_000_000)
    """The cost of each task that moves."""
