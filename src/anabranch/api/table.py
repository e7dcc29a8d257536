"""Tables that rows are joined with: a stream's last record of each key, files, or what a function reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """A stream as a table; see :meth:`Job.table`."""

    stream: str
    key: str
    schema: str | None
    read_as: Mapping[str, str] | None = None
