"""The result of a test: the job's output, as values or as whole records, and the pending batches at each KILL."""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from anabranch.errors import NotFoundError, UsageError

__all__ = ["Pending", "Record", "Result", "decoded"]


@dataclass(frozen=True)
class Record:
    """A record of a stream.

    Attributes:
        partition: the partition's number.
        offset: the record's offset in the partition.
        key: the message key, or None.
        value: the value, or None. A value in the format ``string`` becomes str, and JSON is parsed. (A job that writes
            JSON leaves null columns out.) A JSON number with a fraction becomes a float, so digits of a decimal may be
            lost: see ``raw``. Values in other formats stay bytes, and so do dead letters that can't be decoded.
        headers: pairs of a name and a value.
        timestamp: the record's timestamp, in UTC.
        raw: the value's bytes as they are in the stream, or None.
    """

    partition: int
    offset: int
    key: bytes | None
    value: Any
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: datetime
    raw: bytes | None


@dataclass(frozen=True)
class Pending:
    """A batch that was planned, but not committed, when a KILL ended the job.

    Attributes:
        lane: the lane's id.
        batch: the batch's number.
        committed: the number of the lane's last committed batch; -1 if there is none.
    """

    lane: str
    batch: int
    committed: int


class Result:
    """The contents of all streams that a job wrote: its outputs, its intermediate streams, and its dead letters. An
    output is included even if the configuration names a table for it.

    Rows are listed partition by partition, and within a partition by offset. So the rows of one key are in the order in
    which they were written, but rows of different keys may be in another order.

    Attributes:
        kills: the batches that each KILL left pending.
    """

    def __init__(self, streams: Mapping[str, Iterable[Record]], kills: Iterable[tuple[Pending, ...]] = ()) -> None:
        self._streams = {stream: tuple(records) for stream, records in streams.items()}
        self.kills = tuple(kills)

    @property
    def streams(self) -> tuple[str, ...]:
        """The names of all streams that the job writes."""
        return tuple(self._streams)

    def __getitem__(self, stream: str) -> list[Any]:
        """The values of a stream's records; dicts if the stream's format is JSON.

        Raises:
            NotFoundError: the job does not write this stream.
        """
        return [record.value for record in self.records(stream)]

    def records(self, stream: str) -> list[Record]:
        """The whole records of a stream.

        Raises:
            NotFoundError: the job does not write this stream.
        """
        if stream not in self._streams:
            near = difflib.get_close_matches(stream, self._streams, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise NotFoundError(
                f"the job writes no stream {stream!r}{hint}", f"it writes: {', '.join(self._streams) or 'none'}"
            )
        return list(self._streams[stream])

    def latest(self, stream: str, *columns: str) -> dict[Any, Any]:
        """Map each value of a column to the last row with this value. With several columns, map each tuple of their
        values to the last row with these values. The last row is the last in the order of :meth:`records`.

        An ``agg`` with ``emit="on_update"`` writes a row for each update, so the last rows are its final result.

        Raises:
            NotFoundError: the job does not write this stream.
            UsageError: no column is named, or no row has a column of that name. (A column that is null in all rows is
                left out of the rows.) This error is also raised if a column has values that can't be keys of a dict, or
                if a value is not a JSON object.

        Example:
            ```python
            assert result.latest("by-destination", "dest")["MIA"]["flights"] == 2
            ```
        """
        if not columns:
            raise UsageError(f"latest({stream!r}) names no column", f'write latest({stream!r}, "a-column")')
        found: dict[Any, Any] = {}
        names: set[str] = set()
        for row in self[stream]:
            if not isinstance(row, dict):
                raise UsageError(f"{stream!r} holds {row!r}, which has no columns", f"take result[{stream!r}]")
            names |= row.keys()
            values = tuple(row.get(column) for column in columns)
            try:
                found[values[0] if len(columns) == 1 else values] = row
            except TypeError:
                raise UsageError(
                    f"{stream!r} has arrays or objects in {', '.join(columns)}, which can't be keys of a dict: {row!r}",
                    f"name other columns, or take result[{stream!r}]",
                ) from None
        self._check_columns(stream, columns, names if found else columns)
        return found

    def _check_columns(self, stream: str, columns: Iterable[str], names: Collection[str]) -> None:
        for column in columns:
            if column not in names:
                near = difflib.get_close_matches(column, names, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise UsageError(
                    f"no row of {stream!r} has a column {column!r}{hint}",
                    f"they have: {', '.join(sorted(names)) or 'none'}; a column that is null in all rows is left out",
                )

    def __repr__(self) -> str:
        return f"Result({', '.join(f'{stream}: {len(rows)}' for stream, rows in self._streams.items())})"


def decoded(value: bytes | None, format_: str, stream: str = "") -> Any:
    """A value, decoded according to its stream's format.

    If a dead letter's value can't be decoded, it stays bytes, because this may be the reason why the record became a
    dead letter. In other streams, such a value raises ValueError or, if the value is nested too deeply, RecursionError.
    """
    if value is None or format_ not in ("json", "string"):
        return value
    try:
        return json.loads(value) if format_ == "json" else value.decode()
    except (ValueError, RecursionError):
        if stream.endswith("-dead-letters"):
            return value
        raise
