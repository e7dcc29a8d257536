"""The embedded log as a Spark source: finds the ends of partitions from the last known tails, and reads segments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from anabranch.errors import AnabranchError, LogError
from anabranch.systems.contract import Records
from anabranch.systems.embedded.log import Log
from anabranch.systems.embedded.manifest import Tail
from anabranch.systems.embedded.segments import Slice, read_slice
from anabranch.systems.embedded.system import EmbeddedSystem
from anabranch.systems.reading.spark import Reader, SystemSource, options, plain
from anabranch.systems.source import Reading

__all__ = ["FORMAT", "SOURCES", "EmbeddedSource", "plain", "streamed"]

FORMAT = "anabranch-embedded"


def streamed(spark: SparkSession, system: EmbeddedSystem, reading: Reading) -> DataFrame:
    """See :meth:`anabranch.systems.reading.spark.SparkSide.streamed`."""
    given = {**options(reading), "root": str(system.log.root)}
    return spark.readStream.format(FORMAT).options(**given).load()


class EmbeddedSource(SystemSource):
    """The Spark source for a log. In addition to the options of :func:`anabranch.systems.reading.spark.options`, the
    source has the option ``root``.
    """

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return EmbeddedReader(dict(self.options), self._bare)


SOURCES = (EmbeddedSource,)


class Pieces(InputPartition):
    """The work of one Spark task: slices of one partition, in order."""

    def __init__(self, partition: int, slices: list[Slice]) -> None:
        self.partition = partition
        self.slices = slices


class EmbeddedReader(Reader):
    """The reader of one stream of a log."""

    def __init__(self, options: dict[str, str], bare: bool) -> None:
        super().__init__(options, bare, EmbeddedSystem.name)
        self._log = Log(options["root"])
        self._tails: dict[int, Tail] = {}

    def id(self) -> str:
        return self._log.describe(self._stream).id

    def ends(self) -> Mapping[int, int]:
        self._tails = self._log.ends(self._stream, self._partitions, self._tails)
        return {p: tail.end for p, tail in self._tails.items()}

    def begins(self) -> Mapping[int, int]:
        return {p: each.offset for p, each in self._log.starts(self._stream, self._partitions).items()}

    def piece(self, partition: int, begin: int, end: int) -> InputPartition:
        with self._retried_if_overtaken(partition, begin):
            return Pieces(partition, self._log.slices(self._stream, partition, begin, end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Pieces)
        with self._retried_if_overtaken(partition.partition, partition.slices[0].offset):
            yield from self.metered(partition.partition, [partial(_records, each) for each in partition.slices])

    @contextmanager
    def _retried_if_overtaken(self, partition: int, first: int) -> Iterator[None]:
        """If lost records may be skipped, and the record ``first`` of a partition was deleted after the batch was
        planned, turns a LogError, which is final, into an error after which the lane makes another attempt. That
        attempt skips the lost records.
        """
        try:
            yield
        except LogError as error:
            if not self._skips_lost or self.begins()[partition] <= first:
                raise
            cure = f"the next attempt skips them; to keep more from now on: anabranch stream retain {self._stream}"
            raise AnabranchError(error.what, cure) from None  # a LogError in the traceback would count as final


def _records(piece: Slice) -> Iterable[Records]:
    offset = piece.offset
    for batch in read_slice(piece):
        yield np.arange(offset, offset + batch.num_rows), batch
        offset += batch.num_rows
