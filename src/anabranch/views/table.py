"""Many records of one kind: the column names once, and then a row for each record."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from anabranch.model.document import Document

__all__ = ["Table"]


class Table(Document, frozen=True, kw_only=True):
    """Each of ``rows`` has a value for each of ``columns``. More columns may be added at the end."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...] = ()

    @classmethod
    def of(cls, columns: Iterable[str], rows: Iterable[tuple[Any, ...]]) -> Table:
        return cls(columns=tuple(columns), rows=tuple(rows))

    def records(self) -> list[dict[str, Any]]:
        """The rows as dicts, by the names of the columns."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]
