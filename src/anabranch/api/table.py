"""Tables that rows can be joined with: the latest value per key of a stream, files, or the result of a function."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """A stream used as a table. :meth:`Job.table` makes one."""

    stream: str
    key: str
    schema: str | None
    read_as: Mapping[str, str] | None = None
