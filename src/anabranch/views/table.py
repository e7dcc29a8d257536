"""Tables in a response: each column name appears only once, and each item is a row of values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from anabranch.model.document import Document

__all__ = ["Table"]


class Table(Document, frozen=True, kw_only=True):
    """A table. Each row has one value for each column. Later versions of anabranch can add columns at the end."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...] = ()

    @classmethod
    def of(cls, columns: Iterable[str], rows: Iterable[tuple[Any, ...]]) -> Table:
        return cls(columns=tuple(columns), rows=tuple(rows))

    def records(self) -> list[dict[str, Any]]:
        """The rows as dicts, with the column names as keys."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]
