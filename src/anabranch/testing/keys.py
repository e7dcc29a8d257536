"""Encodes the keys of test inputs as Spark would (see "Key bytes" in docs/reference/operators.md). Text isn't changed,
even in a date or time column, because the job must get the text exactly as it is in the test.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from anabranch.errors import UsageError

__all__ = ["Field", "encode"]

Field = tuple[str, str]
"""A key column: the column's name, and Spark's name for the column's type."""

_WIDTHS = {"int": 4, "bigint": 8}
_SCALE = re.compile(r"decimal\(\d+,(\d+)\)")


def encode(fields: Sequence[Field], row: Mapping[str, Any]) -> bytes | None:
    """The message key of a row; None if the only key column is null.

    Args:
        fields: the key columns, in order.
        row: the row's values, by column. Columns that the row lacks count as null.

    Raises:
        UsageError: the only key column is a string, binary, int or bigint, but its value doesn't fit this type; or a
            value can't be part of a key.
    """
    values = [row.get(name) for name, _ in fields]
    if len(fields) == 1:
        if values[0] is None:
            return None
        if (single := _single(*fields[0], values[0])) is not None:
            return single
    elements = [_element(kind, value) for (_, kind), value in zip(fields, values, strict=True)]
    return f"[{','.join(elements)}]".encode()


def _single(name: str, kind: str, value: Any) -> bytes | None:
    wanted: type | tuple[type, ...]
    if kind == "string":
        wanted, raw = str, value.encode() if isinstance(value, str) else b""
    elif kind == "binary":
        wanted, raw = (bytes, str), value.encode() if isinstance(value, str) else value
    elif kind in _WIDTHS:
        bits = 8 * _WIDTHS[kind]
        whole = isinstance(value, int) and not isinstance(value, bool) and -(2 ** (bits - 1)) <= value < 2 ** (bits - 1)
        wanted, raw = int, value.to_bytes(_WIDTHS[kind], "big", signed=True) if whole else b""
        if not whole:
            raise _wrong(name, kind, value)
    else:
        return None
    if not isinstance(value, wanted):
        raise _wrong(name, kind, value)
    return bytes(raw)


def _wrong(name: str, kind: str, value: Any) -> UsageError:
    return UsageError(
        f"the key column {name} is declared {kind}, and was given {value!r}",
        "give a value of that type, or the key's bytes: Message(value, key=b'…')",
    )


def _element(kind: str, value: Any) -> str:
    if kind.startswith("array<") and isinstance(value, list | tuple):
        return f"[{','.join(_element(kind[6:-1], each) for each in value)}]"
    if kind in ("double", "float") and isinstance(value, int | float):
        value = float(value) + 0.0  # the sum is never -0.0
    if kind == "timestamp" and isinstance(value, datetime) and value.tzinfo is None:
        value = value.replace(tzinfo=UTC)
    scale = _SCALE.fullmatch(kind)
    if scale and isinstance(value, int) and not isinstance(value, bool):
        value = Decimal(value)
    return _json(value, int(scale[1]) if scale else 0)


def _json(value: Any, scale: int = 0) -> str:
    """A value as JSON. A decimal has at least ``scale`` decimal places."""
    if isinstance(value, Decimal) and value.is_finite():
        shown = f"{value:f}"
        places = len(shown.partition(".")[2])
        return shown if places >= scale else f"{value:.{scale}f}"
    if isinstance(value, Mapping):
        return f"{{{','.join(f'{_json(str(name))}:{_json(content)}' for name, content in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"[{','.join(map(_json, value))}]"
    return json.dumps(value, ensure_ascii=False, default=_text)


def _text(value: Any) -> str:
    if isinstance(value, datetime):
        moment = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
        return moment.isoformat(timespec="microseconds") + ("Z" if value.tzinfo else "")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise UsageError(f"{value!r} can't be part of a key", "give the key's bytes: Message(value, key=b'…')")
