"""Checks whether a table has the columns that a job writes."""

from __future__ import annotations

import pyarrow as pa

from anabranch.errors import ConflictError

__all__ = ["NO_NULLS", "check", "nullable"]

NO_NULLS = "replace the nulls inside it in the job, as in: transform(tags, tag -> coalesce(tag, ''))"
"""What the user should do if nested values may be null in the job, but not in the table."""


def nullable(schema: pa.Schema) -> pa.Schema:
    """The same columns, except that all values may be null, including nested ones. (Keys of maps are never null.)"""
    return pa.schema([_nullable_field(field) for field in schema])


def _nullable_field(field: pa.Field) -> pa.Field:
    return field.with_type(_nullable(field.type)).with_nullable(True)


def _nullable(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([_nullable_field(field) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_nullable(kind.key_type), _nullable_field(kind.item_field))
    if pa.types.is_list(kind):
        return pa.list_(_nullable_field(kind.value_field))
    return kind


def check(held: pa.Schema, written: pa.Schema, where: str, cure: str) -> None:
    """Check that a table has exactly the columns that the job writes. Their order doesn't matter, nor does it matter
    which values, nested ones included, may be null. ``where`` is the table's name in error messages, and ``cure`` says
    what the user should do.

    Raises:
        ConflictError: a column has different types in the table and in the job, or exists only in one of them.
    """
    has, wants = ({field.name: field.type for field in nullable(schema)} for schema in (held, written))
    for name, kind in wants.items():
        if name not in has:
            raise ConflictError(f"the job writes a column {name!r} ({kind}), which {where} doesn't have", cure)
        if has[name] != kind:
            raise ConflictError(f"the job writes {name!r} as {kind}; in {where} it is {has[name]}", cure)
    for name, kind in has.items():
        if name not in wants:
            raise ConflictError(f"{where} has a column {name!r} ({kind}), which the job doesn't write", cure)
