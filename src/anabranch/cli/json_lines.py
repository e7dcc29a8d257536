"""Converts between JSON lines and the records of a stream."""

from __future__ import annotations

import base64
import contextlib
import os
import select
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec
import pyarrow as pa

from anabranch.errors import AnabranchError
from anabranch.systems.contract import Offsets
from anabranch.systems.records import RECORD_SCHEMA, iso_text, to_dicts

__all__ = ["LINE_BYTES", "batches", "key_bytes", "records", "text", "values"]

BATCH_LINES = 50_000
LINE_BYTES = 64 * 1024**2
"""The maximum length of a line, in bytes; longer lines are refused. (By default, Kafka accepts records up to 1 MB.)"""
_IDLE = 0.2
_PATIENCE = 1.0


def batches(descriptor: int) -> Iterator[list[bytes]]:
    """The lines of a file or pipe, in lists of up to 50,000. A shorter list is yielded if the writer pauses, or if more
    than a second has passed since the list was begun. A line longer than ``LINE_BYTES`` can be cut off. If a line is
    cut off, nothing after this line is read. (:func:`records` refuses such a line.)
    """
    rest, lines, since = bytearray(), list[bytes](), 0.0
    while len(rest) <= LINE_BYTES and (chunk := os.read(descriptor, 1 << 20)):
        since = since if lines else time.monotonic()
        end, *more = chunk.split(b"\n")
        rest += end
        if more:
            lines += [bytes(rest), *more[:-1]]
            rest = bytearray(more[-1])
        while len(lines) >= BATCH_LINES:
            yield lines[:BATCH_LINES]
            del lines[:BATCH_LINES]
            since = time.monotonic()
        late = time.monotonic() - since > _PATIENCE
        if lines and (late or not select.select([descriptor], [], [], _IDLE)[0]):
            yield lines
            lines = []
    if rest:
        lines.append(bytes(rest))
    if lines:
        yield lines


def records(
    lines: Sequence[bytes], first: int, key: str | None, at: datetime
) -> tuple[pa.RecordBatch, AnabranchError | None]:
    """All lines before the first invalid line, as records, and the error for that line (None if there is none).

    Empty lines are skipped.

    Args:
        first: the number of the first line, for the error.
        key: the field that becomes the message key. Each line must be an object. If the field is null or missing, the
            message key is null. If ``key`` is None, records have no message key, and lines can be any JSON.
        at: the timestamp of the records.
    """
    keys: list[bytes | None] = []
    kept: list[bytes] = []
    fault = None
    for number, line in enumerate(lines, first):
        if len(line) <= LINE_BYTES and not line.strip():
            continue
        try:
            keys.append(_key_of(line, key))
        except (ValueError, OverflowError, RecursionError) as error:
            why = "it is nested too deeply" if isinstance(error, RecursionError) else error
            fault = AnabranchError(
                f"line {number} can't be put: {why}",
                f"the lines before it were written; fix it and put the rest (tail -n +{number})",
            )
            break
        kept.append(line.rstrip(b"\r"))
    columns = [
        pa.array(keys, pa.binary()),
        pa.array(kept, pa.binary()),
        pa.nulls(len(kept), RECORD_SCHEMA.field("headers").type),
        pa.repeat(pa.scalar(at, RECORD_SCHEMA.field("timestamp").type), len(kept)),
    ]
    return pa.record_batch(columns, schema=RECORD_SCHEMA), fault


def key_bytes(value: Any) -> bytes | None:
    """A JSON value as a message key: text as UTF-8, integers as 8 bytes big-endian, null as None, everything else
    (including a ``msgspec.Raw``) as a JSON array that contains only the value. Raises OverflowError for an integer that
    doesn't fit into 8 bytes.
    """
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, int) and not isinstance(value, bool):
        return value.to_bytes(8, "big", signed=True)
    return msgspec.json.encode([value])


def values(batch: pa.RecordBatch, *, keys: bool) -> Iterator[bytes]:
    """A line for each record: its value or, with ``keys``, its key, a tab and its value. None becomes ``null``."""
    shown: list[bytes | None] = batch.column("value").to_pylist()
    if not keys:
        yield from (b"null" if value is None else value for value in shown)
        return
    for key, value in zip(batch.column("key").to_pylist(), shown, strict=True):
        yield (b"null" if key is None else key) + b"\t" + (b"null" if value is None else value)


def text(batch: pa.RecordBatch, partition: int, offsets: Offsets) -> Iterator[bytes]:
    """A JSON object for each record. Keys, values and header values that aren't UTF-8 become ``{"base64": …}``.
    A timestamp outside the years 1 to 9999 becomes the number of microseconds since 1970, as text.
    """
    for offset, record in zip(offsets.tolist(), to_dicts(batch), strict=True):
        yield msgspec.json.encode(
            {
                "partition": partition,
                "offset": offset,
                "timestamp": iso_text(record["timestamp"]),
                "key": _readable(record["key"]),
                "value": _readable(record["value"]),
                "headers": [
                    {"key": header["key"], "value": _readable(header["value"])} for header in record["headers"] or ()
                ],
            }
        )


def now() -> datetime:
    return datetime.now(UTC)


def _key_of(line: bytes, key: str | None) -> bytes | None:
    if len(line) > LINE_BYTES:
        raise ValueError(f"it has more than {LINE_BYTES // 1024**2} MB")
    parsed = msgspec.json.decode(line)
    if key is None:
        return None
    if not isinstance(parsed, dict):
        raise ValueError(f"it isn't a JSON object, so it has no field {key}")
    value = parsed.get(key)
    if isinstance(value, float | list | dict):
        value = _exact(_fields(line)[key])
    return key_bytes(value)


def _number(text: str) -> float | msgspec.Raw:
    """A JSON number as a float or, if the float would be written as another number, as the text itself. A number with
    17 digits, as many programs write a float, is the float.
    """
    rounded = float(text)
    with contextlib.suppress(InvalidOperation):  # the exponent is beyond all that Decimal allows
        if Decimal(text) in (Decimal(str(rounded)), Decimal(format(rounded, ".17g"))):
            return rounded
    return msgspec.Raw(text.encode())


_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_exact = msgspec.json.Decoder(float_hook=_number).decode


def _readable(raw: bytes | None) -> str | dict[str, str] | None:
    if raw is None:
        return None
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(raw).decode()}
