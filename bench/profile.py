"""Where the CPU time of a row goes on its way from Kafka to Kafka, exactly once: CPU seconds per million records read.

One Spark session reads the same topic again and again, as a batch with the settings of our source. Each row of the
printed table (the *ladder*) does more with the records than the row on which it builds, and the difference between the
two rows is the cost of the added step. The rows run in alternating order, and the command prints medians. CPU seconds
are user and system time of all processes except the broker, so other work on the machine changes them less than it
changes elapsed seconds.

- ``reading`` fetches, decompresses and hands out records.
- ``operators`` adds the job's own work, including decoding and encoding.
- ``to Python`` adds Arrow, and a Python worker that drops what it gets.
- ``at least once`` writes with Spark's sink.
- ``exactly once`` writes in transactions with markers, from Python workers.
- A row with ``limit`` does only one thing. No program that has to do the same thing can take less CPU time.

Each pass is a Spark job, and Java's compilers keep optimizing for minutes. So with more records and rounds, the figures
are closer to those of a job that runs for days.

The workload is the filter of ``scripts/bench kafka``: it looks at one field of the JSON, and passes values on
unchanged.
"""

from __future__ import annotations

import argparse
import statistics
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.support.interruption import interruptible

from anabranch.config import KafkaSettings
from anabranch.spark.internals import checkpoint_files
from anabranch.spark.query import sink
from anabranch.systems.kafka import transactions
from anabranch.systems.kafka.output import KafkaOutput
from anabranch.systems.kafka.spark import FETCHING, PRODUCING
from anabranch.systems.kafka.transactions import SlotWriter
from anabranch.systems.output import Target
from bench.support import cluster as clusters
from bench.support.cluster import PARTITIONS, Cluster
from bench.support.flights import LATE
from bench.support.processes import tree_seconds

INPUT = "flights"
KEYS = 20_000
JOB, LANE = "profile", "1-00000000"


@dataclass(frozen=True)
class Row:
    """A row of the ladder. ``base`` is the row on which it builds."""

    name: str
    base: str
    run: Callable[[], None]


@dataclass(frozen=True)
class Profile:
    """One session and one broker."""

    spark: SparkSession
    cluster: Cluster
    output: KafkaOutput

    def read(self) -> DataFrame:
        options = {
            **FETCHING,
            "kafka.bootstrap.servers": self.cluster.bootstrap_servers,
            "kafka.isolation.level": "read_committed",
            "subscribe": INPUT,
            "startingOffsets": "earliest",
        }
        return self.spark.read.format("kafka").options(**options).load()

    def decoded(self) -> DataFrame:
        return self.read().withColumn(
            "dep_delay", F.expr("from_json(cast(value as string), 'dep_delay int').dep_delay")
        )

    def rows(self) -> DataFrame:
        """The output rows of a job, as its lane's query makes them."""
        columns = ["0 as output", "key", "value", "cast(null as string) as headers", "timestamp", "offset as origin"]
        return self.decoded().where(f"dep_delay >= {LATE}").selectExpr(*columns, "partition as slot")

    def to_python(self, rows: DataFrame) -> None:
        def drop(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for _ in batches:
                pass
            yield pa.RecordBatch.from_pydict({"n": pa.array([0], pa.int64())})

        rows.mapInArrow(drop, "n bigint").collect()

    def plain(self, rows: DataFrame) -> None:
        servers = {"kafka.bootstrap.servers": self.cluster.bootstrap_servers, "topic": "out"}
        rows.select("key", "value").write.format("kafka").options(**PRODUCING, **servers).save()

    def exactly_once(self, rows: DataFrame) -> None:
        sink.write(sink.writing(rows, self.output, {0: Target("out", PARTITIONS)}, next_batch()))

    def ladder(self) -> list[Row]:
        kept = self.rows().persist()
        kept.count()
        return [
            Row("reading (limit)", "", lambda: drained(self.read())),
            Row("reading, decoding", "reading (limit)", lambda: drained(self.decoded().select("dep_delay"))),
            Row("operators", "reading (limit)", lambda: drained(self.rows())),
            Row("to Python", "operators", lambda: self.to_python(self.rows())),
            Row("at least once", "operators", lambda: self.plain(self.rows())),
            Row("exactly once", "operators", lambda: self.exactly_once(self.rows())),
            Row("writing exactly once (limit)", "", lambda: self.exactly_once(kept)),
        ]


_batches = iter(range(10**9))


def next_batch() -> int:
    return next(_batches)


def drained(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()


def measured(rows: list[Row], records: int, rounds: int, jvm: int) -> dict[str, list[float]]:
    """The CPU seconds of each row per million records, round by round. An additional round comes first, to warm up."""
    found: dict[str, list[float]] = {row.name: [] for row in rows}
    for number in range(rounds + 1):
        for row in rows if number % 2 else rows[::-1]:
            begun = tree_seconds(jvm)
            row.run()
            if number:
                found[row.name].append((tree_seconds(jvm) - begun) / records * 1e6)
    return found


def told(rows: list[Row], found: dict[str, list[float]]) -> Iterator[str]:
    medians = {name: statistics.median(several) for name, several in found.items()}
    yield "\n| filter | CPU s per million | of it, on top | lowest, highest |"
    yield "| --- | ---: | ---: | ---: |"
    for row in rows:
        on_top = f"{medians[row.name] - medians[row.base]:+.2f} to {row.base}" if row.base in medians else "-"
        span = f"{min(found[row.name]):.2f}, {max(found[row.name]):.2f}"
        yield f"| {row.name} | {medians[row.name]:.2f} | {on_top} | {span} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=2_000_000, help="in the input topic (default: 2,000,000)")
    parser.add_argument("--rounds", type=int, default=5, help="of which the medians are told")
    parser.add_argument("--only", help="rows of the ladder, separated by semicolons (default: all)")
    arguments = parser.parse_args()
    interruptible()
    with clusters.fresh() as cluster:
        cluster.fill(INPUT, arguments.records, KEYS)
        cluster.create("out")
        jars = ",".join(map(str, cluster.connector))
        spark = (
            SparkSession.builder.appName("profile")
            .master(f"local[{PARTITIONS}]")
            .config("spark.jars", jars)
            .config("spark.driver.memory", "2g")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.execution.arrow.maxRecordsPerBatch", "10000")
            .config("spark.sql.shuffle.partitions", str(PARTITIONS))
            .getOrCreate()
        )
        spark.sparkContext.setLogLevel("ERROR")
        settings, group = KafkaSettings(bootstrap_servers=cluster.bootstrap_servers), uuid.uuid4().hex[:8]
        transactions.fence(settings, JOB, LANE, group, range(PARTITIONS), 1, new=True)
        output = KafkaOutput(SlotWriter(settings, JOB, LANE, group, 1), {"out": "out"})
        profile = Profile(spark, cluster, output)
        jvm = checkpoint_files.process_id(spark)
        rows = [row for row in profile.ladder() if not arguments.only or row.name in arguments.only.split(";")]
        found = measured(rows, arguments.records, arguments.rounds, jvm)
        print("\n".join(told(rows, found)), flush=True)
        spark.stop()


if __name__ == "__main__":
    main()
