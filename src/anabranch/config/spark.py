"""The section ``[spark]``."""

from __future__ import annotations

from anabranch.config.section import Section

__all__ = ["SparkSettings"]


class SparkSettings(Section):
    """Spark's ``master``, and further properties of a container's Spark session."""

    master: str | None = None
    memory: str = "2g"
    conf: dict[str, str] = {}
