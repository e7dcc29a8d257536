"""Decodes the records of one source of a lane: makes rows of the readable records, and observes where the unreadable
ones are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType, TimestampType

from anabranch.errors import GraphError
from anabranch.formats import Format
from anabranch.model.graph import Node
from anabranch.spark import values
from anabranch.spark.operators.labels import label
from anabranch.spark.query import sql_errors
from anabranch.spark.values import Reader, codec, meta_column

_BLOCK = 1000
_MARKS = 30
"""The number of bits in a batch's mask of unreadable records. Each bit stands for some blocks of offsets. A bit is set
if any of the bit's blocks contains an unreadable record. To find these records, the blocks are read once more. The mask
costs almost nothing per row. The next higher bits of the same integer are a second mask, which marks blocks with null
keys.
"""

FAULTS = ("value", "key", "null_time", "time")
"""The names of the faults that make a record unreadable. If a record has several faults, its dead letter or the lane's
error names the fault that comes first in this list.
"""

Range = tuple[int, int]
"""The first offset, and one past the last offset."""

_VALUE = "_anabranch_value"
_BAD = "_anabranch_bad_{}"
_REASON = "_anabranch_reason"
_MARKED = "marked"

PLAUSIBLE = ("1900-01-01", 24 * 3600 * 1000)
"""The range of accepted event times, for a ``read`` that doesn't declare a range. The first item is the earliest day.
The second item is a number of milliseconds. An event time may be later than the end of the day on which the batch is
planned, but by no more than this number.
"""


@dataclass(frozen=True)
class RecordDecoding:
    """Turns the records of a source into rows.

    Attributes:
        node: the ``read``.
        reader: decodes the needed columns of values.
        key: the declared columns of the key; None if no key is declared.
        keyed: whether to observe which blocks have null keys. A stateful operator doesn't accept records with null
            keys.
    """

    node: Node
    reader: Reader
    key: StructType | None
    keyed: bool

    def pruned(self, only: Set[str]) -> RecordDecoding:
        """The same decoding, limited to those columns of the value whose names are in ``only``. At least one column is
        kept.
        """
        return replace(self, reader=self.reader.pruned(only))

    @property
    def time(self) -> str:
        """The declared event-time column, or ''."""
        return str(self.node.args.get("event_time", ""))

    def opened(self, raw: DataFrame, explains: bool = False) -> DataFrame:
        """The records, with two changes. The decoded values replace the values' bytes, and additional columns say
        whether the value and the key are faulty. (If Spark observes a DataFrame, it copies all
        columns of the DataFrame. So the bytes are dropped.)

        Args:
            raw: the records of the source. Columns other than ``value`` are kept.
            explains: whether to add the reason why a value is unreadable. :meth:`rows` needs the reason if unreadable
                records fail the lane.
        """
        opened = self._decoded(raw)
        if explains and _BAD.format("value") in opened.columns:
            reason = F.when(F.col(_BAD.format("value")), self.reader.reason(F.col("value")))
            opened = opened.withColumn(_REASON, reason)
        return opened.drop("value")

    def _decoded(self, raw: DataFrame) -> DataFrame:
        opened = raw.select(self.reader.opened(raw["value"]).alias(_VALUE), *raw.columns)
        return opened.select("*", *[fault.alias(_BAD.format(name)) for name, fault in self._checks().items()])

    def _checks(self) -> dict[str, Column]:
        """The conditions for faulty values and faulty keys, by the fault's name. The condition for values is left out
        if all bytes are allowed. The condition for keys is left out if all bytes are allowed or no key is declared.
        """
        value = self.reader.fault(_VALUE)
        key = None if self.key is None else codec.key_fault(F.col("key"), self.key)
        return {name: fault for name, fault in {"value": value, "key": key}.items() if fault is not None}

    def faults(self, today: Column) -> dict[str, Column]:
        """The conditions for the faults that a record of this source can have, by the fault's name, in the order of
        :data:`FAULTS`. The conditions use columns that :meth:`opened` returns.

        Args:
            today: the day on which the batch was planned. If the current day were used instead, records could have
                different faults when the batch runs again.
        """
        found = {name: F.col(_BAD.format(name)) for name in self._checks()}
        if self.time:
            found |= {"null_time": self._time().isNull(), "time": ~self._is_plausible(today)}
        return found

    def _reasons(self) -> dict[str, Column]:
        """The error text for each fault, for records that :meth:`opened` returned with ``explains``."""
        key = F.col("key")
        found = {"value": F.col(_REASON)}
        if self.key is not None:
            found["key"] = codec.key_reason(key, self.key)
        if self.time:
            earliest, ahead = self._range
            said = f", which isn't plausible: before {earliest}, or more than {ahead / 3_600_000:g} hours after today"
            found["null_time"] = F.lit(f"the event time {self.time!r} is null")
            found["time"] = F.concat(
                F.lit(f"the event time {self.time!r} is "),
                self._time().cast("string"),
                F.lit(f"{said} (event_time_range=)"),
            )
        return found

    @property
    def _range(self) -> tuple[str, int]:
        earliest, ahead = self.node.args.get("event_time_range") or PLAUSIBLE
        return str(earliest), int(ahead)

    def _is_plausible(self, today: Column) -> Column:
        earliest, ahead = self._range
        # Only the day matters. A more exact time would be part of the code that Spark compiles, and Spark would compile
        # the code again for each batch.
        latest = F.timestamp_micros(F.unix_micros(F.date_add(today, 1).cast("timestamp")) + F.lit(ahead * 1000))
        first = F.lit(earliest).cast("timestamp")
        return F.coalesce((self._time() >= first) & (self._time() < latest), F.lit(True))

    def measures(self, partitions: Iterable[int], timed: bool, today: Column | None = None) -> list[Column]:
        """The observations to make about a batch: its :class:`Marks` and, if ``timed`` is true, the greatest plausible
        event time of each partition. For ``today``, see :meth:`faults`; the default is the current day.
        """
        today = F.current_date() if today is None else today
        faults = self.faults(today).values()
        bit = F.expr(f"shiftleft(1L, cast((offset div {_BLOCK} + partition) % {_MARKS} as int))")
        marks = [(reduce(or_, faults), bit)] if faults else []
        if self.keyed:
            marks.append((F.col("key").isNull(), bit * 2**_MARKS))
        # One mask for both kinds of marks, because each additional aggregate would be computed for every row.
        found = [F.bit_or(F.coalesce(*[F.when(*mark) for mark in marks])).alias(_MARKED)] if marks else []
        if timed:
            time = F.when(self._is_plausible(today), F.unix_millis(self._time()))
            times = {p: F.when(F.col("partition") == p, time) for p in partitions}
            found += [F.max(time).alias(f"max_{p}") for p, time in times.items()]
        return found

    def rows(
        self,
        opened: DataFrame,
        task: Column,
        stream: str,
        fail: bool,
        bucket: Column | None = None,
        source: int | None = None,
        today: Column | None = None,
    ) -> DataFrame:
        """The rows of the readable records: the columns of the value, then those of the key, then the hidden column.

        Args:
            opened: the result of :meth:`opened`, which must have all columns that :func:`meta_column.of_record` needs.
                If ``fail`` is true, the result must have been made with ``explains``.
            task: the number of the record's task at factor 1.
            stream: the stream's name, for the error.
            fail: whether an unreadable record fails the lane. If not, unreadable records are left out.
            bucket: for a broadcast record, the bucket of the virtual task that gets the record; None for other records.
            source: the number of the source; the node's id by default.
            today: the day on which the batch was planned; the current day by default.
        """
        faults = self.faults(F.current_date() if today is None else today)
        if faults:
            good: Column = ~reduce(or_, faults.values())
            reasons = self._reasons() if fail else {}
            # In reverse order, because Spark evaluates the outermost condition first.
            for name in reversed([*faults] if fail else []):
                good = F.when(faults[name], _failing(self.node, stream, reasons[name])).otherwise(good)
            opened = opened.where(good)
        number = self.node.id if source is None else source
        return opened.select(*self._columns(opened), meta_column.of_record(task, number, bucket))

    def readable(self, raw: DataFrame) -> DataFrame:
        """The readable records and the records without a value, unchanged."""
        opened = self._decoded(raw)
        faults = self.faults(F.current_date()).values()
        good = ~reduce(or_, faults) if faults else F.lit(True)
        return opened.where(F.col("value").isNull() | good).select(*raw.columns)

    def faulty(self, raw: DataFrame, number: int, today: Column) -> DataFrame:
        """The unreadable records of the source ``number``. Each row has the number of the source, the record's
        partition and offset, the fault's name, and the error text.
        """
        opened, reasons = self.opened(raw, explains=True), self._reasons()
        faults = self.faults(today)
        name = F.coalesce(*[F.when(fault, F.lit(name)) for name, fault in faults.items()])
        reason = F.coalesce(*[F.when(fault, reasons[name]) for name, fault in faults.items()])
        at = [F.lit(number).alias("source"), F.col("partition"), F.col("offset")]
        return opened.select(*at, name.alias("fault"), reason.alias("reason")).where("fault is not null")

    def check(self, rows: DataFrame) -> None:
        """Raises GraphError if a column is declared twice, or if the event time isn't a declared timestamp column."""
        names = rows.columns
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise GraphError(
                f"{label(self.node)} declares the column {twice!r} in key= and in schema=, or twice in one",
                "leave it out of schema=: the message key already holds it",
            )
        if not self.time:
            return
        field = next((f for f in rows.schema if f.name == self.time), None)
        if field is None or not isinstance(field.dataType, TimestampType):
            what = "is not among its columns" if field is None else f"is {field.dataType.simpleString()}"
            raise GraphError(
                f"{label(self.node)} has event_time={self.time!r}, which {what}",
                f'declare it in schema= as a timestamp: "{self.time} timestamp"',
            )

    def _time(self) -> Column:
        of_key = self.key is not None and self.time in self.key.names
        return self._keys()[self.time] if of_key else F.col(f"{_VALUE}.{codec.quoted(self.time)}")

    def _keys(self) -> dict[str, Column]:
        if self.key is None:
            return {}
        return dict(zip(self.key.names, codec.decode_key(F.col("key"), self.key), strict=True))

    def _columns(self, opened: DataFrame) -> list[Column]:
        keys = list(self._keys().values())
        if self.reader.schema is not None:
            return [*[F.col(f"{_VALUE}.{codec.quoted(name)}") for name in self.reader.schema.names], *keys]
        return [opened[_VALUE].alias("value"), *keys]


@dataclass(frozen=True)
class Marks:
    """Two bit masks for a batch's blocks of offsets: ``faulty`` marks blocks that may contain unreadable records, and
    ``keyless`` marks blocks that may contain null keys."""

    faulty: int
    keyless: int

    @classmethod
    def of(cls, measured: Mapping[str, Any]) -> Marks:
        """The marks that :meth:`RecordDecoding.measures` has observed."""
        keyless, faulty = divmod(int(measured.get(_MARKED) or 0), 2**_MARKS)
        return cls(faulty, keyless)


def marked(mask: int, ranges: Mapping[int, Range]) -> dict[int, list[Range]]:
    """For each partition, the parts of a batch's ``ranges`` of offsets that lie in blocks marked in ``mask``.
    Partitions without such parts are missing from the result.
    """
    found: dict[int, list[Range]] = {}
    for partition, (first, end) in sorted(ranges.items()):
        for block in range(first // _BLOCK, -(-end // _BLOCK) if end > first else 0):
            if mask >> (block + partition) % _MARKS & 1:
                begin, stop = max(first, block * _BLOCK), min(end, (block + 1) * _BLOCK)
                several = found.setdefault(partition, [])
                if several and several[-1][1] == begin:
                    begin = several.pop()[0]
                several.append((begin, stop))
    return found


def _failing(node: Node, stream: str, reason: Column) -> Column:
    cure = 'fix what writes it, or set [job] on_error = "dead-letter" or "drop"'
    before = f"{label(node)}: the record of {stream}/"
    after = F.concat(F.lit(" can't be read: "), F.coalesce(reason, F.lit("its value")))
    return sql_errors.for_record(before, after, cure, F.col("partition"), F.col("offset"))


def of_graph(node: Node, format_: Format, keyed: bool) -> RecordDecoding:
    """The decoding for a ``read``.

    Raises:
        GraphError: the declarations of the ``read`` don't fit the stream's format.
        ParseException: Spark can't parse the declarations.
    """
    key = node.args.get("key")
    return RecordDecoding(
        node=node,
        reader=values.reading(format_, node.args.get("schema"), label(node), node.args.get("read_as")),
        key=codec.parse_schema(key) if key else None,
        keyed=keyed,
    )
