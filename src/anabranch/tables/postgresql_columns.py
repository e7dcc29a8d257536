"""Handles the columns of a PostgreSQL table: their types, whether they fit a job's columns, and values for COPY."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql

from anabranch.errors import ConflictError

__all__ = ["Column", "assigned", "check", "check_text", "columns_of", "text", "type_of"]

_TYPES = {
    pa.bool_(): "boolean",
    pa.int8(): "smallint",
    pa.int16(): "smallint",
    pa.int32(): "integer",
    pa.int64(): "bigint",
    pa.float32(): "real",
    pa.float64(): "double precision",
    pa.string(): "text",
    pa.binary(): "bytea",
    pa.date32(): "date",
    pa.timestamp("us", tz="UTC"): "timestamp with time zone",
    pa.timestamp("us"): "timestamp without time zone",
}
_ALSO = {
    "smallint": ("integer", "bigint"),
    "integer": ("bigint",),
    "real": ("double precision",),
    "text": ("character", "character varying", "uuid"),
    "jsonb": ("json",),
}
"""The types that a table's column can have for a job's column. Each key is the type that anabranch gives to a new
column. The value lists the other types, without length and precision, that an existing column can have instead.
"""
_NO_ASSIGNMENT = ("uuid",)
"""Types to which PostgreSQL converts text only by an explicit cast."""
_NUMERIC = re.compile(r"numeric\((\d+),(-?\d+)\)")
_NUL = "\0"
_NUL_IN_JSON = r"(^|[^\\])(\\\\)*\\u0000"
"""Finds a NUL in JSON text. An escaped backslash followed by ``u0000`` isn't a NUL."""
_SHOWN = 60
"""The maximum number of characters of a value in an error message."""


@dataclass(frozen=True)
class Column:
    """A column of an existing table. ``needed`` is true if the column can't be null and PostgreSQL doesn't supply a
    value, so that the job must write the column.
    """

    type: str
    needed: bool


def _bare(kind: str) -> str:
    """The name of a type, without a length or precision. The name of an array type isn't changed, so that
    it differs from the type of every column that a job can have.
    """
    return kind if kind.endswith("]") else kind.partition("(")[0]


def columns_of(connection: psycopg.Connection[Any], table: str) -> dict[str, Column]:
    """The columns of a table, by name. ``table`` is the table's name as written in SQL."""
    query = """
        select attname, format_type(atttypid, atttypmod), attnotnull and not atthasdef and attidentity = ''
        from pg_attribute where attrelid = to_regclass(%s) and attnum > 0 and not attisdropped order by attnum
    """
    rows = connection.execute(query, [table]).fetchall()
    return {name: Column(kind, needed) for name, kind, needed in rows}


def assigned(staged: sql.Identifier, held: Column) -> sql.Composable:
    """The SQL value to insert from the column ``staged`` of the staging table into the column ``held``. If PostgreSQL
    converts the value automatically, there is no cast, because a cast would shorten text that is too long.
    """
    return sql.SQL("{}::{}").format(staged, sql.SQL(held.type)) if held.type in _NO_ASSIGNMENT else staged


def check(held: Mapping[str, Column], wanted: Mapping[str, sql.SQL], shown: str, table: str) -> None:
    """Check that a table with the columns ``held`` accepts rows with the columns ``wanted``. ``wanted`` maps column
    names to types. ``shown`` is the table's name in error messages, and ``table`` is its name in SQL.

    Raises:
        ConflictError: a column of the rows is missing from the table or has a type that doesn't fit there, or the rows
            lack a column that is ``needed``. The message names the first such column, and says how to fix it.
    """
    for name, written in wanted.items():
        kind = written.as_string()
        if name not in held:
            raise ConflictError(
                f"the job writes a column {name!r} ({kind}), which {shown} doesn't have",
                f'add it: alter table {table} add column "{name}" {kind}',
            )
        if _bare(held[name].type) not in (_bare(kind), *_ALSO.get(kind, ())):
            raise ConflictError(
                f"the job writes {name!r} as {kind}; in {shown} it is {held[name].type}",
                "cast it in the job, or change the column's type",
            )
        if not _holds(held[name].type, kind):
            raise ConflictError(
                f"the job writes {name!r} as {kind}; in {shown} it is {held[name].type}, which has too few digits",
                "cast it in the job, or change the column's type",
            )
    needed = next((name for name, each in held.items() if name not in wanted and each.needed), None)
    if needed is not None:
        raise ConflictError(
            f"{shown} has a column {needed!r} that may not be null and has no default, and the job doesn't write it",
            "write it, or give it a default",
        )


def _holds(held: str, written: str) -> bool:
    """Whether a numeric column has enough digits, before and after the point, for all numbers of the type ``written``.
    True for all other types.
    """
    mine, its = _NUMERIC.fullmatch(written), _NUMERIC.fullmatch(held)
    if mine is None or its is None:
        return True
    precision, scale = map(int, mine.groups())
    most, most_scale = map(int, its.groups())
    return most_scale >= scale and most - most_scale >= precision - scale


def type_of(column: pa.Field, shown: str) -> sql.SQL:
    """The PostgreSQL type for a column that the job writes. Raises ConflictError if there is no such type. ``shown`` is
    the table's name in error messages.
    """
    kind = column.type
    if pa.types.is_decimal(kind):
        return sql.SQL(f"numeric({kind.precision},{kind.scale})")
    if pa.types.is_nested(kind):
        return sql.SQL("jsonb")
    if kind not in _TYPES:
        raise ConflictError(
            f"{shown} can't have a column {column.name!r} of type {kind}", "cast it in the job, or leave it out"
        )
    return sql.SQL(_TYPES[kind])


def text(column: pa.Array) -> pa.Array:
    """A column's values as text, in the form that COPY accepts."""
    if pa.types.is_binary(column.type):
        return pa.array([None if each is None else f"\\x{each.hex()}" for each in column.to_pylist()], pa.string())
    if pa.types.is_nested(column.type):
        plain = [_plain(each, column.type) for each in column.to_pylist()]
        return pa.array([None if each is None else json.dumps(each) for each in plain], pa.string())
    return column if pa.types.is_string(column.type) else pc.cast(column, pa.string())


def check_text(name: str, column: pa.Array, texts: pa.Array, shown: str) -> None:
    """Check that no value in a column contains U+0000, which PostgreSQL can't store. ``texts`` is the result of
    :func:`text` for the column. ``shown`` is the table's name in error messages.

    Raises:
        ConflictError: a value contains U+0000. The message shows the beginning of this value.
    """
    if pa.types.is_string(column.type):
        bad = pc.match_substring(texts, _NUL)
    elif pa.types.is_nested(column.type):
        bad = pc.match_substring_regex(texts, _NUL_IN_JSON)
    else:
        return
    first = pc.index(bad, True).as_py()
    if first >= 0:
        value = repr(texts[first].as_py())
        value = value if len(value) <= _SHOWN else f"{value[: _SHOWN - 1]}…"
        raise ConflictError(
            f"{shown} doesn't take a row: {name!r} contains U+0000, a character that PostgreSQL can't store: {value}",
            "replace it in the job, for example in SQL: replace(text, chr(0), '')",
        )


def _plain(value: Any, kind: pa.DataType) -> Any:
    """A nested value in the types of JSON. A map or a struct becomes an object. A value that JSON lacks, such as bytes
    or NaN, becomes a string that PostgreSQL can cast to the value's type.
    """
    if value is None:
        return None
    if pa.types.is_map(kind):
        return {_name(key, kind.key_type): _plain(each, kind.item_type) for key, each in value}
    if pa.types.is_struct(kind):
        return {field.name: _plain(value[field.name], field.type) for field in kind}
    if pa.types.is_nested(kind):
        return [_plain(each, kind.value_type) for each in value]
    if isinstance(value, bytes):
        return f"\\x{value.hex()}"
    if isinstance(value, float):
        return value if math.isfinite(value) else json.dumps(value)
    return value if isinstance(value, bool | int | str) else str(value)


def _name(key: Any, kind: pa.DataType) -> str:
    """A key of a map, as the name of a field of a JSON object."""
    plain = _plain(key, kind)
    return plain if isinstance(plain, str) else json.dumps(plain)
