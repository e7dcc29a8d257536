"""The section ``[spark]``."""

from __future__ import annotations

import re

from anabranch.config.section import Section

__all__ = ["SparkSettings", "names_secret"]

_SECRET = re.compile(r"secret|password|token|access[._-]?key", re.IGNORECASE)
"""Matches the names of secrets: Spark's default for ``spark.redaction.regex``, with more spellings of "access key"."""


class SparkSettings(Section):
    """Settings of Spark sessions: the ``master`` that containers use, the memory of the driver's JVM, and further
    properties."""

    master: str | None = None
    memory: str = "2g"
    conf: dict[str, str] = {}


def names_secret(name: str) -> bool:
    """Whether a Spark property of this name is probably a secret."""
    return _SECRET.search(name) is not None
