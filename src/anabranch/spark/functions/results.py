"""Converts the results of Python functions to columns of the declared schema.

If all values of a column have Python types that Arrow converts correctly, Arrow converts the whole column. Otherwise,
the column's values are first converted one by one. If the conversion of any column fails, all rows are converted one by
one, to find the faulty rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from anabranch.spark.functions import copies, error_text, result_columns
from anabranch.spark.functions.error_text import shortened
from anabranch.spark.functions.result_columns import Column
from anabranch.spark.functions.result_values import ResultError, Wrong, check_awaited, is_missing, type_name

__all__ = ["ResultError", "Results", "check_awaited"]


class Results:
    """Makes Arrow tables from the results of functions. In ``schema``, timestamp types must have the time zone UTC or
    none. ``finite`` says whether NaN and infinity are refused; :meth:`cast` always refuses them.
    """

    def __init__(self, schema: pa.Schema, finite: bool = True) -> None:
        self.schema = schema
        self._columns = [result_columns.column_of(field.type, field.nullable, finite) for field in schema]
        self._names = frozenset(schema.names)
        self._changing = [field.name for field in schema if copies.can_change(field.type)]

    def owned(self, row: Any) -> Any:
        """A copy of a row that a function has returned. (User code may change the row itself later.) If a row can't be
        copied, it is converted at once, and ResultError is raised if the row isn't valid.
        """
        try:
            if type(row) is dict:
                return self._copy(row)
        except BaseException:  # a value of an unusual type, or user code, which can raise anything
            pass
        try:
            return self.row(row)
        except ResultError:
            raise
        except BaseException as error:
            raise ResultError(_unreadable(error)) from None

    def _copy(self, row: dict[str, Any]) -> dict[str, Any]:
        made = row.copy()
        for name in self._changing:
            if name in made:
                made[name] = copies.copied(made[name])
        return made

    def table(self, rows: Sequence[Any]) -> tuple[pa.Table, dict[int, str]]:
        """Convert rows to a table. Returns the table, which has only the rows that can be converted. Also returns a
        dict with the reason for each row that can't be converted, by the row's index.
        """
        try:
            arrays = self._arrays(rows)
        except BaseException:  # a user's class can raise anything, even when it is only compared
            return self._one_by_one(rows)
        return pa.Table.from_arrays(arrays, schema=self.schema), {}

    def _arrays(self, rows: Sequence[Any]) -> list[pa.Array | pa.ChunkedArray]:
        names = self._names
        for row in rows:
            if type(row) is not dict or not row.keys() <= names:
                raise ResultError
        columns = zip(self.schema.names, self._columns, strict=True)
        return [column.array([row.get(name) for row in rows]) for name, column in columns]

    def row(self, row: object) -> dict[str, Any]:
        """One row, as plain Python values. Raises ResultError if the row isn't valid."""
        return dict(zip(self.schema.names, self._row(row), strict=True))

    def cast(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch that a function has returned, converted to the schema. Columns that the schema doesn't have are left
        out.

        Raises:
            ResultError: the batch doesn't fit the schema, for one of these reasons:

                - A column is missing, or has an incompatible type.
                - A value would change. (But a 64-bit float may become the nearest 32-bit float.)
                - A value isn't allowed, even inside another value: null where the schema excludes it, NaN, infinity, a
                  date or timestamp outside the years 1 to 9999, text that isn't UTF-8, or a map with the same key
                  twice.
        """
        arrays = []
        for field, column in zip(self.schema, self._columns, strict=True):
            if field.name not in batch.schema.names:
                raise ResultError(f"its result lacks the column {field.name!r}; declare the result with schema=")
            given = batch.column(field.name)
            if not result_columns.is_alike(given.type, field.type):
                raise ResultError(f"its column {field.name!r} is {column.kind}, but got {given.type}: cast it")
            try:
                made = given.cast(field.type)
            except pa.ArrowException as error:
                told = error_text.bounded(str(error))
                raise ResultError(f"its column {field.name!r} is {column.kind}, but got {given.type}: {told}") from None
            refused = result_columns.refused(made, field.nullable)
            if refused is not None:
                path, kind, got = refused
                raise ResultError(f"its column {field.name + path!r} is {kind}, but got {got}")
            arrays.append(made)
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _one_by_one(self, rows: Sequence[Any]) -> tuple[pa.Table, dict[int, str]]:
        good: list[list[Any]] = []
        errors: dict[int, str] = {}
        for number, row in enumerate(rows):
            try:
                values = self._row(row)
                for value, column in zip(values, self._columns, strict=True):
                    column.built([value])
            except ResultError as error:
                errors[number] = error_text.one_line(str(error))
            except BaseException as error:  # from user code, in an object that the function has returned
                errors[number] = _unreadable(error)
            else:
                good.append(values)
        columns = [column.built([values[at] for values in good]) for at, column in enumerate(self._columns)]
        return pa.Table.from_arrays(columns, schema=self.schema), errors

    def _row(self, row: object) -> list[Any]:
        fields = result_columns.fields_of(row)
        if fields is None:
            check_awaited(row)
            raise ResultError(f"it returned {shortened(row)}, not a dict of the result's columns")
        unknown = next((name for name in fields if name not in self._names), None)
        if unknown is not None:
            told = f"its result has the unknown column {shortened(unknown)}"
            raise ResultError(f"{told}; declare the result with schema=")
        return [
            self._value(name, column, fields.get(name))
            for name, column in zip(self.schema.names, self._columns, strict=True)
        ]

    @staticmethod
    def _value(name: str, column: Column, value: object) -> Any:
        try:
            return column.plain(value)
        except Wrong as wrong:
            where = f"its column {error_text.bounded(name + wrong.path)!r} is {wrong.kind or column.kind}"
            got = "null" if is_missing(wrong.value) else f"{shortened(wrong.value)} ({type_name(wrong.value)})"
            raise ResultError(f"{where}, but got {got}: {wrong.advice}") from None


def _unreadable(error: BaseException) -> str:
    return f"what it returned can't be read: {error_text.described(error)}"
