"""The interface of a format: a reader converts values from bytes to columns, and a writer converts columns to bytes."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Protocol, Self

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import DataType, StructType

from anabranch.errors import GraphError

__all__ = ["Reader", "Writer", "check_declared", "check_written"]


class Reader(Protocol):
    """Converts values to columns: :meth:`opened` turns the bytes into one column, from which the row's columns are
    taken.
    """

    @property
    def schema(self) -> StructType | None:
        """The row's columns, which are fields of the opened column. If the row has only one column, this is None. The
        row's column is then the opened column itself, with the name ``value``.
        """
        ...

    def opened(self, value: Column) -> Column: ...

    def fault(self, opened: str) -> Column | None:
        """A condition that is true for unreadable values; None if all values are readable. ``opened`` is the name of
        the opened column.
        """
        ...

    def reason(self, value: Column) -> Column:
        """The reason, as text, why ``value`` can't be read; ``value`` itself can be null."""
        ...

    def pruned(self, only: Set[str]) -> Self:
        """The same reader, limited to the columns in ``only``. At least one column is kept."""
        ...


class Writer(Protocol):
    """Converts columns to the bytes of a value."""

    def encode(self, frame: DataFrame, names: Sequence[str], where: str) -> Column:
        """The named columns as a value's bytes. Raises GraphError if the format can't represent them. ``where`` is the
        operator's name in error messages.
        """
        ...


def _same(one: DataType, other: DataType) -> bool:
    """Whether two types are the same, apart from nullability."""
    return one.simpleString() == other.simpleString()


def check_declared(declared: StructType, held: StructType, where: str, what: str) -> None:
    """Raises GraphError if a stream's schema ``held`` lacks a column of ``declared``, or has a column of the same name
    with another type.
    """
    known = {field.name: field.dataType for field in held}
    for field in declared:
        if field.name not in known:
            raise GraphError(
                f"{where} declares the column {field.name!r}, which {what} doesn't have",
                f"it has: {', '.join(known) or 'none'}; without schema=, all of them are read",
            )
        if not _same(field.dataType, known[field.name]):
            raise GraphError(
                f"{where} declares {field.name!r} as {field.dataType.simpleString()}; {what} has "
                f"{known[field.name].simpleString()}",
                f'declare "{field.name} {known[field.name].simpleString()}", or leave schema= out',
            )


def check_written(frame: DataFrame, names: Sequence[str], held: StructType, where: str, what: str) -> None:
    """Raises GraphError if the columns to write don't fit a stream's schema ``held``. This is the case if ``held``
    lacks one of the columns, has one of them with another type, or requires a column that isn't written.
    """
    known = {field.name: field for field in held}
    types = {field.name: field.dataType for field in frame.schema}
    for name in names:
        if name not in known:
            raise GraphError(
                f"{where} writes the column {name!r}, which {what} doesn't have",
                f"select those that it has: {', '.join(known)}",
            )
        if not _same(types[name], known[name].dataType):
            raise GraphError(
                f"{where} writes {name!r} as {types[name].simpleString()}; {what} has "
                f"{known[name].dataType.simpleString()}",
                f"cast it: CAST({name} AS {known[name].dataType.simpleString()}) AS {name}",
            )
    missing = [field.name for field in held if field.name not in names and not field.nullable]
    if missing:
        raise GraphError(
            f"{where} writes no column {missing[0]!r}, and {what} has one that may not be null",
            f"add what is missing: {', '.join(missing)}",
        )
