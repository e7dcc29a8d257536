"""Copies values, because user code may change a value after returning it."""

from __future__ import annotations

import datetime as dt
import enum
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

__all__ = ["UnknownTypeError", "can_change", "copied"]

_IMMUTABLE = (type(None), bool, int, float, str, bytes, Decimal, dt.date, dt.datetime, dt.time, dt.timedelta)
_USUAL = frozenset(_IMMUTABLE)


class UnknownTypeError(Exception):
    """A value has a type that :func:`copied` can't copy."""


def can_change(type_: pa.DataType) -> bool:
    """Whether a column of the type ``type_`` can hold mutable values, such as lists, which user code could change
    later."""
    types = pa.types
    is_text = types.is_string(type_) or types.is_large_string(type_)
    return not (types.is_primitive(type_) or types.is_decimal(type_) or is_text or types.is_null(type_))


def copied(value: Any) -> Any:
    """A copy of a value, with copies of the values inside; immutable values are returned as they are.

    Raises:
        UnknownTypeError: the value, or a value inside it, has a type that this function can't copy.
    """
    kind = type(value)
    if kind in _USUAL:
        return value
    if kind is list:
        return value.copy() if _USUAL.issuperset(map(type, value)) else [copied(each) for each in value]
    if kind is dict:
        return {name: copied(each) for name, each in value.items()}
    if kind is tuple:
        return tuple([copied(each) for each in value])
    if kind is bytearray or (kind is np.ndarray and not value.dtype.hasobject):
        return value.copy()
    if isinstance(value, (*_IMMUTABLE, np.generic, enum.Enum)):
        return value
    raise UnknownTypeError
