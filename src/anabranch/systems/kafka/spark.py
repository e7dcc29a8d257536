"""Reads and writes topics with Spark's Kafka connector, and converts between its columns and anabranch's."""

from __future__ import annotations

import functools
import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from anabranch.systems.kafka import clients
from anabranch.systems.kafka.system import KafkaSystem
from anabranch.systems.source import Reading

SOURCES = ()
"""Empty, because Spark's connector isn't written in Python. A session gets the connector from jars."""

PRODUCING = {
    "kafka.compression.type": "lz4",
    "kafka.linger.ms": "20",
    "kafka.batch.size": "1000000",
}
AT_ONCE = {"kafka.linger.ms": "0", "kafka.max.in.flight.requests.per.connection": "1"}
FETCHING = {
    "kafka.max.poll.records": "10000",
    "kafka.max.partition.fetch.bytes": "8388608",
    "kafka.fetch.max.bytes": "67108864",
}


def streamed(spark: SparkSession, system: KafkaSystem, reading: Reading) -> DataFrame:
    """A streaming DataFrame with a stream's committed records. ``reading.until`` has no effect, because Spark's
    source has no such option."""
    topic = system.topic(reading.stream)
    begin = {str(p): offset for p, offset in sorted(reading.starting.items())}
    settings = {
        **FETCHING,
        **{f"kafka.{name}": value for name, value in clients.java(system.settings).items()},
        "kafka.isolation.level": "read_committed",
    }
    options = {
        "kafka.group.id": _group(frozenset(settings.items())),
        **settings,
        "assign": json.dumps({topic: sorted(reading.starting)}),
        "startingOffsets": json.dumps({topic: begin}),
        **({"maxOffsetsPerTrigger": str(reading.limits.max_rows)} if reading.limits.max_rows else {}),
        **({"maxOffsetsPerTrigger": "0"} if reading.limits.nothing else {}),
        "includeHeaders": str(not reading.bare).lower(),
        "failOnDataLoss": str(reading.limits.fail_on_loss).lower(),
    }
    raw = spark.readStream.format("kafka").options(**options).load()
    if reading.bare:
        return raw.select("key", "value", "partition", "offset")
    return raw.select("key", "value", _packed().alias("headers"), "timestamp", "partition", "offset")


@functools.cache
def _group(reading: frozenset[tuple[str, str]]) -> str:
    """The name of the consumer group for reading with these options. Within this process, equal options always give the
    same name, and different options give different names. No consumer joins the group.

    Executors cache consumers and the records that these consumers have fetched. The cache is divided by group and
    partition. So if several lanes read a partition, one after another, the next lane continues with the same consumer.
    """
    return f"anabranch-reads-{uuid.uuid4()}"


@dataclass(frozen=True)
class AtLeastOnceWriter:
    """Writes at-least-once output, with Spark's own sink. ``topics`` maps each output's number to the output's topic.

    Java's default partitioner assigns keys to the same partitions as anabranch's exactly-once output, until the topic
    gets more partitions.
    """

    system: KafkaSystem
    topics: Mapping[int, str]

    def write(self, rows: DataFrame) -> None:
        """Write the rows of the outputs in ``topics``."""
        mine = rows.where(F.col("output").isin(list(self.topics)))
        self._options(mine.select(*self._columns()).write.format("kafka")).save()

    def stream(self, rows: DataFrame) -> Any:
        """A writer for real-time mode, in which records are sent without waiting for further records."""
        return self._options(rows.select(*self._columns()).writeStream.format("kafka"), at_once=True)

    def _columns(self) -> list[Column]:
        topics = [F.when(F.col("output") == number, F.lit(topic)) for number, topic in self.topics.items()]
        return [F.coalesce(*topics).alias("topic"), F.col("key"), F.col("value"), _unpacked().alias("headers")]

    def _options(self, writer: Any, at_once: bool = False) -> Any:
        """A writer with the cluster's settings, and with settings for throughput. If ``at_once`` is true, records don't
        wait until a request is full. However, records that arrive while a request is being sent share the next request.
        """
        client = {f"kafka.{name}": value for name, value in clients.java(self.system.settings).items()}
        return writer.options(**{**PRODUCING, **(AT_ONCE if at_once else {}), **client})


def plain(system: KafkaSystem, streams: Mapping[int, str]) -> AtLeastOnceWriter:
    """A writer for at-least-once output. ``streams`` maps each output's number to the output's stream."""
    return AtLeastOnceWriter(system, {number: system.topic(stream) for number, stream in streams.items()})


# These expressions are SQL because the variables of PySpark's lambdas get new names each time, and these names are in
# the code that Spark generates. Spark would compile that code again for every lane, for 0.1 s or more.
_ITEM = "array(header.key, base64(header.value))"
_PAIR = "named_struct('key', pair[0], 'value', unbase64(pair[1]))"


def _unpacked() -> Column:
    """The inverse of :func:`_packed`."""
    pairs = "from_json(headers, 'array<array<string>>')"
    return F.expr(f"if(headers is not null, transform({pairs}, pair -> {_PAIR}), null)")


def _packed() -> Column:
    """The record's headers in the form of :func:`anabranch.systems.headers.pack`."""
    return F.expr(f"if(size(headers) > 0, to_json(transform(headers, header -> {_ITEM})), null)")
