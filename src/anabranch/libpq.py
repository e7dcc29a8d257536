"""What connections to PostgreSQL have in common."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["options"]


def options(settings: Mapping[str, str], given: str) -> str:
    """libpq's parameter ``options``: the ``settings`` of a connection, and the options ``given`` in its URL, which take
    precedence.
    """
    return " ".join([*(f"-c {name}={value}" for name, value in settings.items()), given]).strip()
