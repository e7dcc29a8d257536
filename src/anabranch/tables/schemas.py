"""Checks whether a table has the columns that a job writes."""

from __future__ import annotations

import pyarrow as pa

from anabranch.errors import ConflictError

__all__ = ["check"]


def check(held: pa.Schema, written: pa.Schema, where: str, cure: str) -> None:
    """Check that a table has exactly the columns that the job writes. Order and nullability don't matter. ``where`` is
    the table's name in error messages, and ``cure`` says what the user should do.

    Raises:
        ConflictError: a column has different types in the table and in the job, or exists only in one of them.
    """
    has, wants = ({field.name: field.type for field in schema} for schema in (held, written))
    for name, kind in wants.items():
        if name not in has:
            raise ConflictError(f"the job writes a column {name!r} ({kind}), which {where} doesn't have", cure)
        if has[name] != kind:
            raise ConflictError(f"the job writes {name!r} as {kind}; in {where} it is {has[name]}", cure)
    for name, kind in has.items():
        if name not in wants:
            raise ConflictError(f"{where} has a column {name!r} ({kind}), which the job doesn't write", cure)
