"""Converts the values that processors keep in state. Each value is either converted to exactly the value that is later
read from the state, or refused. The rules are those for the results of functions
(:mod:`anabranch.spark.functions.result_columns`), except that NaN and infinity are accepted.
"""

from __future__ import annotations

import copy
import datetime as dt
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    CharType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    TimeType,
    VarcharType,
)

from anabranch.spark.functions import result_columns
from anabranch.spark.functions.error_text import bounded, shortened
from anabranch.spark.functions.result_values import ResultError, Wrong, is_missing, type_name
from anabranch.spark.internals import type_verifiers

__all__ = ["converter"]

Convert = Callable[[Any], Any]

_INTEGERS = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}
_EXACT: dict[type[DataType], type] = {BooleanType: bool, BinaryType: bytes, DateType: dt.date, DoubleType: float}
_UNUSUAL = object()
_SIMPLE = (
    *_INTEGERS,
    BinaryType,
    BooleanType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    NullType,
    StringType,
    TimestampNTZType,
    TimestampType,
    TimeType,
)


def converter(what: str, declared: str, kind: DataType) -> Convert:
    """A function that converts values of the type ``kind``; None stays None. If a value isn't of this type, the
    function raises a TypeError or, for a few types that PySpark checks, such as ``variant``, a PySpark exception.

    Args:
        what: the part of the processor that has the type, such as ``state 'last'``, for error messages.
        declared: the type as the processor declares it.
    """
    known = _known(kind)
    if known is None:
        return _verified(kind)
    (field,) = to_arrow_schema(StructType([StructField("value", known)]), timezone="UTC")
    plain = result_columns.column_of(field.type, nullable=True, finite=False).plain
    quick, form = _quick(known), _form(known)
    about = f"{what} is declared as {declared!r}, but "

    def convert(value: Any) -> Any:
        try:
            found = quick(value)
            if found is not _UNUSUAL:
                return found
            found = plain(value)
            return found if form is None or found is None else form(found)
        except Wrong as wrong:
            raise TypeError(about + _description(wrong)) from None
        except ResultError:
            raise TypeError(f"{about}was given {shortened(value)}, which has a coroutine that wasn't awaited") from None

    return convert


def _description(wrong: Wrong) -> str:
    got = "null" if is_missing(wrong.value) else f"{shortened(wrong.value)} ({type_name(wrong.value)})"
    where = f"at {bounded(wrong.path)!r}, of the type {wrong.kind}, it " if wrong.path else ""
    return f"{where}was given {got}: {wrong.advice}"


def _known(kind: DataType) -> DataType | None:
    """The type, with ``char`` and ``varchar`` types replaced by ``string``; None if only PySpark can check the type."""
    match kind:
        case CharType() | VarcharType():
            return StringType()
        case ArrayType():
            element = _known(kind.elementType)
            return None if element is None else ArrayType(element, kind.containsNull)
        case MapType():
            name, entry = _known(kind.keyType), _known(kind.valueType)
            if entry is None or not isinstance(name, _SIMPLE):  # other keys can't be in a dict
                return None
            return MapType(name, entry, kind.valueContainsNull)
        case StructType():
            fields = [(field, _known(field.dataType)) for field in kind]
            made = [StructField(field.name, its, field.nullable) for field, its in fields if its is not None]
            return StructType(made) if len(made) == len(fields) else None
    return kind if isinstance(kind, _SIMPLE) else None


def _verified(kind: DataType) -> Convert:
    verify = type_verifiers.of_type(kind)

    def convert(value: Any) -> Any:
        verify(value)
        return copy.deepcopy(value)

    return convert


def _quick(kind: DataType) -> Convert:
    """A function that quickly converts the most common values of a type, and returns ``_UNUSUAL`` for all others."""
    match kind:
        case ArrayType():
            return _quick_array(_quick(kind.elementType), kind.containsNull)
        case MapType():
            return _quick_map(_quick(kind.keyType), _quick(kind.valueType), kind.valueContainsNull)
        case StructType():
            nullable = all(field.nullable for field in kind)
            return _quick_struct({field.name: _quick(field.dataType) for field in kind}, nullable)
    usual = _usual(kind)
    return lambda value: value if usual(value) else _UNUSUAL


def _usual(kind: DataType) -> Callable[[Any], bool]:
    match kind:
        case ByteType() | ShortType() | IntegerType() | LongType():
            limit = 2 ** (_INTEGERS[type(kind)] - 1)
            return lambda value: type(value) is int and -limit <= value < limit
        case StringType():
            return lambda value: type(value) is str and value.isascii()
        case TimestampType():
            return lambda value: type(value) is dt.datetime and value.tzinfo is dt.UTC
    its = _EXACT.get(type(kind))
    return lambda value: type(value) is its


def _quick_array(element: Convert, nullable: bool) -> Convert:
    def convert(value: Any) -> Any:
        if type(value) is not list:
            return _UNUSUAL
        made = [None if each is None and nullable else element(each) for each in value]
        return _UNUSUAL if _UNUSUAL in made else made

    return convert


def _quick_map(name: Convert, entry: Convert, nullable: bool) -> Convert:
    def convert(value: Any) -> Any:
        if type(value) is not dict:
            return _UNUSUAL
        made = {name(each): None if its is None and nullable else entry(its) for each, its in value.items()}
        return _UNUSUAL if _UNUSUAL in made or _UNUSUAL in made.values() else made

    return convert


def _quick_struct(fields: Mapping[str, Convert], nullable: bool) -> Convert:
    def convert(value: Any) -> Any:
        if type(value) is not dict or not value.keys() <= fields.keys():
            return _UNUSUAL
        given = [(name, value.get(name), field) for name, field in fields.items()]
        made = {name: None if each is None and nullable else field(each) for name, each, field in given}
        return _UNUSUAL if _UNUSUAL in made.values() else made

    return convert


def _form(kind: DataType) -> Convert | None:
    """A function that gives converted values the form in which they are later read from the state. None if converted
    values already have this form."""
    match kind:
        case FloatType():
            return lambda value: float(np.float32(value))
        case ArrayType():
            element = _form(kind.elementType)
            return None if element is None else lambda value: [_formed(each, element) for each in value]
        case MapType():
            name, entry = _form(kind.keyType), _form(kind.valueType)
            return lambda value: {_formed(n, name): _formed(each, entry) for n, each in value}
        case StructType():
            forms = {field.name: _form(field.dataType) for field in kind}
            if any(forms.values()):
                return lambda value: {name: _formed(each, forms[name]) for name, each in value.items()}
    return None


def _formed(value: Any, form: Convert | None) -> Any:
    return value if form is None or value is None else form(value)
