"""The section ``[spark]``."""

from __future__ import annotations

import re

from anabranch.config.section import Section

__all__ = ["SparkSettings", "names_secret"]

_SECRET = re.compile(r"secret|password|token|access[._-]?key", re.IGNORECASE)
"""The default of ``spark.redaction.regex``, by which Spark recognizes secrets, and further ways to write it."""


class SparkSettings(Section):
    """Settings of Spark sessions: the ``master`` of containers' sessions, the memory, and further properties."""

    master: str | None = None
    memory: str = "2g"
    conf: dict[str, str] = {}


def names_secret(name: str) -> bool:
    """Whether the property of Spark that is called so is probably a secret."""
    return _SECRET.search(name) is not None
