"""Describes one source of a lane's query: which records Spark reads, which rows it makes from them, and what it
observes about them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from anabranch.model.graph import Node
from anabranch.model.ssp import SSP
from anabranch.spark.operators.broadcast_routing import FIRST, BroadcastRouting
from anabranch.spark.query import records
from anabranch.spark.values import codec, meta_column
from anabranch.spark.values.decoding import Marks, Range, RecordDecoding, marked
from anabranch.systems.contract import System
from anabranch.systems.reading.spark import spark_side
from anabranch.systems.source import Limits, Reading

Measured = Mapping[str, Any]
"""The observations of a source's records in one batch, by the names from :meth:`RecordDecoding.measures`."""


@dataclass(frozen=True)
class Source:
    """One stream that a lane reads. A ``read`` of several streams has several sources.

    Attributes:
        node: the operator that reads the stream.
        number: the source's number, which identifies the source in hidden columns.
        ssps: the whole SSPs that the lane reads from the stream.
        starting: the start offsets, by whole SSP.
        tasks: the numbers of the lane's tasks (at factor 1), by whole SSP in text form.
        audience: for a broadcast stream, determines the tasks to which each record goes; None for other streams.
        own: a condition that is true for the records that belong to the lane. None for a broadcast stream, or if all
            records that the lane reads belong to the lane.
        intake: decodes the records of a ``read``; None for an intermediate stream.
        columns: the columns of an intermediate stream's values.
        fail: whether an unreadable record fails the lane.
        timed: whether the event times of the source's records determine the lane's watermark.
        bare: whether the records are read without headers and timestamps.
    """

    spark: SparkSession
    system: System
    node: Node
    number: int
    stream: str
    ssps: tuple[SSP, ...]
    starting: Mapping[SSP, int]
    tasks: Mapping[str, int]
    audience: BroadcastRouting | None
    own: Column | None
    intake: RecordDecoding | None
    columns: StructType
    fail: bool
    timed: bool
    bare: bool

    @property
    def name(self) -> str:
        """The name under which Spark reports the observations of this source."""
        return self.node.name if self.number == self.node.id else f"{self.node.name} {self.stream}"

    @property
    def starts(self) -> dict[int, int]:
        """The offset at which the lane begins to read each partition."""
        return {ssp.partition: self.starting.get(ssp, 0) for ssp in self.ssps}

    def begun(self) -> list[tuple[SSP, int]]:
        """Each SSP, with the offset at which the lane begins to read it."""
        return [(ssp, self.starting.get(ssp, 0)) for ssp in self.ssps]

    def streamed(self, until: Mapping[int, int], limits: Limits) -> DataFrame:
        """The records of the lane's partitions, as a streaming DataFrame. ``until`` has end offsets, by partition. A
        system that can stop at end offsets reads nothing beyond them.
        """
        side = spark_side(self.system)
        raw = side.streamed(self.spark, self.system, Reading(self.stream, self.starts, until, limits, self.bare))
        return self._whole(raw)

    def again(self, ranges: Mapping[int, Sequence[Range]]) -> DataFrame:
        """Selected records, read once more, as a batch DataFrame. ``ranges`` has ranges of offsets, by partition."""
        return self._whole(records.again(self.spark, self.system, self.stream, ranges, self.bare))

    def _whole(self, raw: DataFrame) -> DataFrame:
        """The records with all columns that a record can have. Columns that weren't read are null."""
        if not self.bare:
            return raw
        return raw.withColumns({"headers": F.lit(None).cast("string"), "timestamp": F.lit(None).cast("timestamp")})

    def _own(self, records: DataFrame) -> DataFrame:
        return records if self.own is None else records.where(self.own)

    def measures(self, today: Column | None = None) -> list[Column]:
        """The observations to make about the records from :meth:`opened`; [] for an intermediate stream. For
        ``today``, see :meth:`RecordDecoding.faults`; None stands for the current day.
        """
        return [] if self.intake is None else self.intake.measures(sorted(self.starts), self.timed, today)

    def opened(self, raw: DataFrame) -> DataFrame:
        """The records of a ``read`` with decoded values (see :meth:`RecordDecoding.opened`), or the unchanged records
        of an intermediate stream. Records that don't belong to the lane are left out, unless the source is
        ``timed``: a timed source observes the event times of all records.
        """
        if not self.timed:
            raw = self._own(raw)
        return raw if self.intake is None else self.intake.opened(raw, self.fail)

    def observed(self, opened: DataFrame) -> DataFrame:
        """The DataFrame ``opened``, with the observations that Spark must make while it computes the rows."""
        measures = self.measures()
        return opened.observe(self.name, *measures) if measures else opened

    def rows(self, opened: DataFrame, today: Column | None = None) -> DataFrame:
        """The rows of the readable records that belong to the lane; for a broadcast stream, one row for each task that
        gets the record. For ``today``, see :meth:`RecordDecoding.faults`.
        """
        if self.timed:
            opened = self._own(opened)
        stream = f"{self.system.name}/{self.stream}"
        if self.audience is not None and self.intake is not None:
            given = self.audience.given(opened)
            return self.intake.rows(given, F.col("task"), stream, self.fail, F.col("bucket"), self.number, today)
        task = _number(self.tasks, self.ssps)
        if self.intake is None:
            return opened.select(
                codec.parse_json(F.col("value"), self.columns), meta_column.of_record(task, self.number)
            )
        return self.intake.rows(opened, task, stream, self.fail, source=self.number, today=today)

    def faulty(self, measured: Measured, ranges: Mapping[int, Range], at: int, *, skips_lost: bool) -> DataFrame | None:
        """The unreadable records of a batch, in the form of :meth:`RecordDecoding.faulty`. None if all records are
        readable, or if the source is an intermediate stream. For a broadcast stream, only the records that this lane
        must reject are included; see :meth:`BroadcastRouting.first`.

        Args:
            measured: the observations of the batch, which say where to look for unreadable records.
            ranges: the offsets that the batch reads, by partition.
            at: when the batch was planned, in Unix ms.
            skips_lost: whether to skip offsets that the stream no longer has, as the batch has done.
        """
        mask = Marks.of(measured).faulty
        if self.intake is None or not mask:
            return None
        again = self.again(marked(mask, self._kept(ranges) if skips_lost else ranges))
        mine = self._own(again) if self.audience is None else again.where(self.audience.first())
        return self.intake.faulty(mine, self.number, day(at))

    def keyless(self, measured: Measured, ranges: Mapping[int, Range], at: int, *, skips_lost: bool) -> DataFrame:
        """The rows of a batch's records, from all blocks of offsets that may contain null keys according to
        ``measured``. Rows of records with keys in these blocks are included as well. For a broadcast stream, only the
        rows of the task :data:`FIRST` are included, because a record must be rejected only once. For the arguments, see
        :meth:`faulty`.
        """
        mask = Marks.of(measured).keyless
        again = self.again(marked(mask, self._kept(ranges) if mask and skips_lost else ranges))
        rows = self.rows(self.opened(again), day(at))
        return rows if self.audience is None else rows.where(meta_column.field("task") == FIRST)

    def maxima(self, measured: Measured) -> dict[str, int]:
        """The greatest plausible event time of each SSP in a batch, in Unix ms. An SSP is missing if the batch has no
        plausible event time for it. Empty if the source isn't ``timed``.
        """
        if not self.timed or self.intake is None:
            return {}
        found = {ssp: measured.get(f"max_{ssp.partition}") for ssp in self.ssps}
        return {str(ssp): int(at) for ssp, at in found.items() if at is not None}

    def measured_again(self, ranges: Mapping[int, Range], at: int) -> Measured:
        """The observations of a completed batch, made by reading its records once more. For ``ranges`` and ``at``, see
        :meth:`faulty`. {} if none of the batch's records exist any more, or if the source observes nothing.

        Records that the stream no longer has can't be observed again. If records are missing, the watermark
        might not advance until the lane has read more records.
        """
        wanted = {p: [each] for p, each in self._kept(ranges).items()}
        return measured(self.opened(self.again(wanted)), self.measures(day(at))) if wanted else {}

    def _kept(self, ranges: Mapping[int, Range]) -> dict[int, Range]:
        """The ``ranges`` without the offsets before each partition's oldest existing record."""
        starts = self.system.starts(self.stream)
        kept = {p: (max(first, starts.get(p, 0)), end) for p, (first, end) in ranges.items()}
        return {p: (first, end) for p, (first, end) in kept.items() if end > first}


def day(at: int) -> Column:
    """The day that ``current_date`` returns in a batch that was planned at ``at`` (in Unix ms)."""
    return F.timestamp_millis(F.lit(at)).cast("date")


def by_node(sources: Iterable[Source], rows: Callable[[Source], DataFrame]) -> dict[int, DataFrame]:
    """The rows of each operator that reads streams, by the id of the operator's node. ``rows`` returns the rows of one
    source. If an operator has several sources, their rows are put into one DataFrame.
    """
    found: dict[int, DataFrame] = {}
    for source in sources:
        its = rows(source)
        found[source.node.id] = found[source.node.id].unionByName(its) if source.node.id in found else its
    return found


def measured(opened: DataFrame, measures: Sequence[Column]) -> Measured:
    """Compute the observations ``measures`` on a batch DataFrame, and return their values by name."""
    if not measures:
        return {}
    taken = opened.agg(*measures)
    found: Measured = json.loads(taken.select(F.to_json(F.struct("*"))).collect()[0][0])
    return found


def _number(numbers: Mapping[str, int], mine: Sequence[SSP]) -> Column:
    """The task number of a record, from its partition."""
    if all(numbers[str(ssp)] == ssp.partition for ssp in mine):
        return F.col("partition")
    pairs = [F.lit(x) for ssp in mine for x in (ssp.partition, numbers[str(ssp)])]
    return F.create_map(*pairs)[F.col("partition")]
