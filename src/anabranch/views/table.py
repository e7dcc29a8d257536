"""Tables in a response: the column names appear once, followed by a row of values for each item."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from anabranch.model.document import Document

__all__ = ["Table"]


class Table(Document, frozen=True, kw_only=True):
    """Each of ``rows`` has a value for each of ``columns``. Later versions may add columns at the end."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...] = ()

    @classmethod
    def of(cls, columns: Iterable[str], rows: Iterable[tuple[Any, ...]]) -> Table:
        return cls(columns=tuple(columns), rows=tuple(rows))

    def records(self) -> list[dict[str, Any]]:
        """The rows as dicts, with the column names as keys."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]
