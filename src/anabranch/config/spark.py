"""The section ``[spark]``."""

from __future__ import annotations

from anabranch.config.section import Section

__all__ = ["SparkSettings"]


class SparkSettings(Section):
    """``master``, and further Spark settings of the container's session."""

    master: str | None = None
    memory: str = "2g"
    conf: dict[str, str] = {}
