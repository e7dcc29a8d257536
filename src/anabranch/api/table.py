"""A stream as a table that rows can be joined with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """A stream that is used as a table, as returned by :meth:`Job.table`."""

    stream: str
    key: str
    schema: str | None
    read_as: Mapping[str, str] | None = None
