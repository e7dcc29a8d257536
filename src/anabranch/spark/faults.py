"""Says in words what is wrong with a record that can't be read. Plain Python: it runs for such records alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

_INTEGERS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}

Explain = Callable[[str, bytes | None, bytes | None], str]
ExplainValue = Callable[[bytes | None], str]


def explaining(of_value: ExplainValue, key: str, time: str) -> Explain:
    """The explanation of a fault by its name, from the record's key and value.

    Args:
        of_value: why a value can't be read.
        key: what ``key=`` declares.
        time: the column of event time.
    """

    def explain(fault: str, key_bytes: bytes | None, value: bytes | None) -> str:
        if fault == "value":
            return of_value(value)
        if fault == "key":
            return f"the key 0x{(key_bytes or b'').hex()} isn't {key!r}"
        if fault == "null_key":
            return "the key is null, and the operator keeps its rows by key"
        return f"the event time {time!r} is null"

    return explain


@dataclass(frozen=True)
class OfJson:
    """``fields``: name and simple type of the declared ones."""

    fields: tuple[tuple[str, str], ...]

    def __call__(self, value: bytes | None) -> str:
        return of_json(value, self.fields)


@dataclass(frozen=True)
class OfAvro:
    """``ids``: those that are known, of a stream of a registry."""

    ids: tuple[int, ...] | None

    def __call__(self, value: bytes | None) -> str:
        if value is None:
            return "the value is null"
        if self.ids is None:
            return "the value isn't Avro of its schema"
        if len(value) < 5 or value[0] != 0:
            return "the value doesn't begin with the id of a registered schema"
        number = int.from_bytes(value[1:5], "big")
        if number in self.ids:
            return f"the value isn't Avro of schema {number}, or that can't be read by the job's"
        known = ", ".join(map(str, self.ids)) or "none"
        return f"schema {number} wasn't one of the subject's when the job first ran: {known}"


@dataclass(frozen=True)
class OfProtobuf:
    message: str

    def __call__(self, value: bytes | None) -> str:
        return "the value is null" if value is None else f"the value is no message {self.message}"


def of_json(value: bytes | None, fields: tuple[tuple[str, str], ...]) -> str:
    """Why a value isn't JSON of the declared fields."""
    if value is None:
        return "the value is null"
    try:
        parsed = json.loads(value)
    except (UnicodeDecodeError, ValueError) as error:
        return f"the value is not JSON: {error}" if value.strip() else "the value is empty"
    if not isinstance(parsed, dict):
        return f"the value is JSON, but not an object: {_short(parsed)}"
    for name, kind in fields:
        if parsed.get(name) is not None and not _fits(parsed[name], kind):
            return f"the field {name!r} is no {kind}: {_short(parsed[name])}"
    return "the value isn't JSON of the declared schema"


def _fits(value: Any, kind: str) -> bool:
    """False when a value of JSON surely isn't of a simple type; others are Spark's to judge."""
    if kind in _INTEGERS:
        limit = 2 ** (_INTEGERS[kind] - 1)
        return isinstance(value, int) and not isinstance(value, bool) and -limit <= value < limit
    if kind in ("float", "double"):
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind == "boolean":
        return isinstance(value, bool)
    if kind in ("timestamp", "date"):
        return isinstance(value, str) and _is_time(value)
    if kind.startswith("array<"):
        return isinstance(value, list)
    if kind.startswith(("struct<", "map<")):
        return isinstance(value, dict)
    return True


def _is_time(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:80]}…"
