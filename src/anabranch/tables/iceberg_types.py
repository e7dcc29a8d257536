"""Compares the types of a job's columns with those of an Iceberg table."""

from __future__ import annotations

import pyarrow as pa
from pyiceberg.io import pyarrow as io
from pyiceberg.io.pyarrow import UnsupportedPyArrowTypeException
from pyiceberg.table import Table
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

__all__ = ["fits", "of", "shown"]


def of(column: pa.Field, table: Table) -> IcebergType | None:
    """The Iceberg type of a column of the job, with the field ids of the table's column. None if Iceberg has no such
    type, or if the table's column lacks a nested field.
    """
    try:
        return io.pyarrow_to_schema(pa.schema([column]), table.schema().name_mapping).fields[0].field_type
    except (ValueError, UnsupportedPyArrowTypeException):
        return None


def fits(written: IcebergType, held: IcebergType) -> bool:
    """Whether a column of the type ``held`` takes all values of the type ``written``. If nested values may be null in
    the table, it doesn't matter whether they may be null in the rows that are written.
    """
    if isinstance(written, ListType) and isinstance(held, ListType):
        nulls = written.element_required or not held.element_required
        return nulls and fits(written.element_type, held.element_type)
    if isinstance(written, MapType) and isinstance(held, MapType):
        nulls = written.value_required or not held.value_required
        return nulls and fits(written.key_type, held.key_type) and fits(written.value_type, held.value_type)
    if isinstance(written, StructType) and isinstance(held, StructType):
        return len(written.fields) == len(held.fields) and all(map(_field_fits, written.fields, held.fields))
    return bool(written == held)


def _field_fits(written: NestedField, held: NestedField) -> bool:
    nulls = written.required or not held.required
    return nulls and written.name == held.name and fits(written.field_type, held.field_type)


def shown(kind: IcebergType, required: bool = False) -> str:
    """A type as error messages show it."""
    match kind:
        case ListType():
            text = f"list<{shown(kind.element_type, kind.element_required)}>"
        case MapType():
            text = f"map<{shown(kind.key_type)}, {shown(kind.value_type, kind.value_required)}>"
        case StructType():
            fields = [f"{field.name}: {shown(field.field_type, field.required)}" for field in kind.fields]
            text = f"struct<{', '.join(fields)}>"
        case _:
            text = str(kind)
    return f"{text} not null" if required else text
