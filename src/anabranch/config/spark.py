"""The section ``[spark]``."""

from __future__ import annotations

from anabranch.config.section import Section

__all__ = ["SparkSettings"]


class SparkSettings(Section):
    """The Spark session of a container: its ``master``, its memory, and further properties in ``conf``."""

    master: str | None = None
    memory: str = "2g"
    conf: dict[str, str] = {}
