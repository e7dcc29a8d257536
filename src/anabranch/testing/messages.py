"""Encodes the messages that a test puts into a stream: rows with their keys, partitions, headers and timestamps."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import cycle
from types import EllipsisType
from typing import Any

import msgspec

from anabranch.errors import UsageError
from anabranch.formats import modules
from anabranch.model.hashing import partition_for
from anabranch.testing import keys
from anabranch.testing.keys import Field

__all__ = ["Encoded", "Encoder", "Message"]

_BINARY = {*modules.MODULES, "protobuf"}
"""The formats in which a message can't be given as a dict, because only the job's own program knows the schema."""
_JSON = msgspec.json.Encoder(decimal_format="number")

Headers = Mapping[str, bytes | str | None] | Sequence[tuple[str, bytes | str | None]]


@dataclass(frozen=True)
class Message:
    """A row with a key, headers, timestamp or partition of your choice. If you leave out an argument, it has the same
    default as for a plain row.

    Args:
        value: a dict, bytes, str or None. A dict is written as JSON, without the columns from which the key is made.
            Bytes and str are written unchanged. None stands for no value. Streams in the formats ``avro``,
            ``confluent`` and ``protobuf`` take no dicts.
        key: bytes, str (as UTF-8) or None (no key). If ``value`` is a dict, the key is by default made from the columns
            that ``read(key=...)`` declares. For other values, there is no key by default.
        headers: a dict, or pairs of name and value if a name occurs more than once.
        timestamp: a datetime with a time zone. Default: now.
        partition: the partition's number. By default, the key determines the partition, as in Kafka. Messages without a
            key go to the partitions in turn.
    """

    value: Mapping[str, Any] | bytes | str | None
    key: bytes | str | EllipsisType | None = ...
    headers: Headers = ()
    timestamp: datetime | None = None
    partition: int | None = None


@dataclass(frozen=True)
class Encoded:
    """A message in the form that a system accepts."""

    partition: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: datetime


class Encoder:
    """Encodes the messages of one stream. ``key`` contains the key columns that the job declares."""

    def __init__(self, stream: str, key: Sequence[Field], partitions: int, format_: str = "json") -> None:
        self._stream = stream
        self._format = format_
        self._key = key
        self._partitions = partitions
        self._turn: Iterator[int] = cycle(range(partitions))

    def encode(self, place: int, row: Any) -> Encoded:
        """Encode a plain row or a :class:`Message`. ``place`` is the row's index in the input's list, for errors.

        Raises:
            UsageError: ``row`` has a type that no row can have, can't be encoded, or has an invalid key, timestamp or
                partition.
        """
        try:
            return self._encoded(row if isinstance(row, Message) else Message(row))
        except (UsageError, TypeError, ValueError) as error:
            what, cure = (error.what, error.cure) if isinstance(error, UsageError) else (str(error), "")
            raise UsageError(f"row {place} of the input {self._stream!r} can't be put: {what}", cure) from None

    def _encoded(self, message: Message) -> Encoded:
        key, value = self._key_and_value(message)
        if message.timestamp is not None and message.timestamp.tzinfo is None:
            raise UsageError(f"its timestamp {message.timestamp} has no zone", "add one: tzinfo=UTC")
        headers = message.headers.items() if isinstance(message.headers, Mapping) else message.headers
        return Encoded(
            partition=self._partition(message.partition, key),
            key=key,
            value=value,
            headers=tuple((name, _raw(content)) for name, content in headers),
            timestamp=message.timestamp or datetime.now(UTC),
        )

    def _key_and_value(self, message: Message) -> tuple[bytes | None, bytes | None]:
        value, key = message.value, message.key
        if isinstance(value, Mapping):
            if self._format in _BINARY:
                raise UsageError(
                    f"it is a dict, and the stream's format is {self._format!r}",
                    "give the value as bytes, as fastavro or a message's SerializeToString() gives it",
                )
            names = {name for name, _ in self._key} if isinstance(key, EllipsisType) else set()
            rest = _json({name: content for name, content in value.items() if name not in names})
            return keys.encode(self._key, value) if isinstance(key, EllipsisType) and names else _given(key), rest
        if value is None or isinstance(value, bytes | str):
            return _given(key), _raw(value)
        raise UsageError(
            f"it is {value!r}", "a row is a dict, bytes, str or None, or a Message; KILL and BATCH stand between rows"
        )

    def _partition(self, given: int | None, key: bytes | None) -> int:
        if given is None:
            return next(self._turn) if key is None else partition_for(key, self._partitions)
        if not 0 <= given < self._partitions:
            raise UsageError(
                f"its partition is {given}, and the stream has {self._partitions}",
                "give run(..., partitions=) more, or the message a lower one",
            )
        return given


def _json(columns: Mapping[str, Any]) -> bytes:
    encoded = _JSON.encode(columns)
    for name, content in columns.items():
        if not _is_finite(msgspec.to_builtins(content)):  # msgspec writes such a number as null
            raise UsageError(
                f"its column {name} is {content!r}, and JSON has neither NaN nor infinity",
                "give None for a null, or a text that some producer writes as the whole value: '{\"price\": NaN}'",
            )
    return encoded


def _is_finite(content: Any) -> bool:
    if isinstance(content, Mapping):
        return all(map(_is_finite, content.values()))
    if isinstance(content, list | tuple | set | frozenset):
        return all(map(_is_finite, content))
    return not isinstance(content, float) or math.isfinite(content)


def _given(key: bytes | str | EllipsisType | None) -> bytes | None:
    return None if isinstance(key, EllipsisType) else _raw(key)


def _raw(content: bytes | str | None) -> bytes | None:
    return content.encode() if isinstance(content, str) else content
