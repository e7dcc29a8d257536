"""What a factor above 1 gains, for functions that wait and functions that compute, on one partition of a Kafka topic.

Each side is a lane with one function, which reads a full topic of one partition and writes to another topic, exactly
once. The lane has a single batch, with so many records that the batch takes ``--seconds`` or more even if factor X is X
times as fast as factor 1. The rate is that of the batch, including its planning and its commit. The command checks how
many records were written. A ratio compares two sides in the same round.

The parts:

- ``blocking`` sleeps for 2 ms on each message. Each message has a different key.
- ``skewed`` does the same with 20,000 keys, a few of which are frequent.
- ``async`` is like ``blocking``, with ``asyncio.sleep``.
- ``computing`` keeps a core busy for about a millisecond per message.
- ``hash`` measures how long it takes to compute a row's bucket.
- ``plain`` compares factor 1 with the same lane without buckets, in which a plain loop calls the function. It compares
  the CPU seconds of the driver, Java and the Python workers together.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from confluent_kafka import Producer
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from tests.support.interruption import interruptible

from anabranch import Job
from anabranch.config import (
    EmbeddedSettings,
    JobSettings,
    KafkaSettings,
    Settings,
    StorageSettings,
    SystemsSettings,
)
from anabranch.container.checkpoint.folder import Folder
from anabranch.grouping import groupers
from anabranch.planning import plan as planning
from anabranch.spark.functions import buckets, wrap
from anabranch.spark.internals import java_process
from anabranch.spark.query import ownership, resolution
from anabranch.spark.query.plan import LoadedJob
from anabranch.spark.query.query import LaneQuery
from anabranch.spark.session import session
from anabranch.spark.values import meta_column
from anabranch.systems.kafka import clients
from anabranch.systems.kafka.system import KafkaSystem
from bench.support import cluster as clusters
from bench.support.processes import explained, tree_seconds

WAIT_MS = 2
KEYS = 20_000
SKEW = 1.1
"""The exponent of the distribution of keys. The most frequent key has a seventh of the records."""
GOALS = {"blocking": {4: 3.8, 16: 14.0, 64: 45.0}, "async": {}, "skewed": {}, "computing": {2: 1.8}}
PLAIN_GOAL, PLAIN_ROWS, PLAIN_PAIRS = 1.05, 1_000_000, 21
HASHED = 5_000_000
PARTS = ("blocking", "skewed", "async", "computing", "hash", "plain")
PATIENCE = 600.0

Message = dict[str, Any]


def blocking(message: Message) -> Message:
    time.sleep(WAIT_MS / 1000)
    return message


async def waiting(message: Message) -> Message:
    await asyncio.sleep(WAIT_MS / 1000)
    return message


def computing(message: Message) -> Message:
    total = 0
    for number in range(25_000):
        total += number * number % 7
    return {"n": message["n"] + (total < 0)}


def same(message: Message) -> Message:
    return message


@dataclass(frozen=True)
class Bench:
    """A session, a broker, and a folder for all lanes."""

    spark: SparkSession
    kafka: KafkaSettings
    folder: Path
    seconds: float

    @cached_property
    def system(self) -> KafkaSystem:
        return KafkaSystem(self.kafka)

    def measured(self, function: Callable[[Message], Any], factor: int, keys: list[bytes]) -> tuple[float, float]:
        """Run a batch with one message for each of ``keys``. Returns the seconds that the batch took, and the CPU
        seconds of all processes.
        """
        name = f"bench-{uuid.uuid4().hex[:8]}"
        self._fill(f"{name}-in", keys)
        job = Job(name)
        job.read(f"{name}-in", schema="n int").map(function, name="function").write(f"{name}-out")
        before = tree_seconds(*self._processes)
        seconds = self._ran(job, factor, len(keys))
        cpu = tree_seconds(*self._processes) - before
        end = self.system.ends(f"{name}-out")[0]
        written = sum(batch.num_rows for _, batch in self.system.read(f"{name}-out", 0, [(0, end)]))
        if written != len(keys):
            raise SystemExit(f"factor {factor}: {written:,} records were written of {len(keys):,}")
        return seconds, cpu

    @property
    def _processes(self) -> tuple[int, ...]:
        return (java_process.pid(self.spark),)

    def _fill(self, topic: str, keys: list[bytes]) -> None:
        self.system.create(topic, 1)
        producer = Producer({**clients.librdkafka(self.kafka), "linger.ms": 50, "queue.buffering.max.messages": 10**7})
        for number, key in enumerate(keys):
            producer.produce(topic, b'{"n": %d}' % number, key, partition=0)
        if producer.flush(PATIENCE):
            raise SystemExit(f"{topic} could not be filled")

    def _ran(self, job: Job, factor: int, rows: int) -> float:
        lane = self._query(job, factor, rows)
        query = lane.start()
        try:
            deadline = time.monotonic() + PATIENCE
            while True:
                for progress in query.recentProgress:
                    if progress["numInputRows"]:
                        if progress["numInputRows"] != rows:
                            raise SystemExit(f"{progress['numInputRows']:,} rows of {rows:,} were in the batch")
                        return float(progress["durationMs"]["triggerExecution"] / 1000)
                if not query.isActive or time.monotonic() > deadline:
                    raise SystemExit(f"the lane has not ended: {query.exception()}")
                time.sleep(0.1)
        finally:
            query.stop()
            lane.outputs.settle()

    def _query(self, job: Job, factor: int, rows: int) -> LaneQuery:
        settings = Settings(
            job=JobSettings(factor=factor, max_rows_per_batch=rows, target_batch_seconds=0),
            storage=StorageSettings(root=str(self.folder / "lanes")),
            systems=SystemsSettings(
                default="kafka", kafka=self.kafka, embedded=EmbeddedSettings(root=self.folder / "log")
            ),
        )
        around = planning.Surroundings(
            factor=factor,
            containers=1,
            grouper_name="partition",
            grouper=groupers.named("partition"),
            partitions={str(node.args["stream"]): 1 for node in job.graph.nodes if node.kind == "read"},
            systems={},
            default_system="kafka",
        )
        plan = planning.make(job.graph, around)
        for each in plan.outputs:
            self.system.create(str(each.stream), each.partitions)
        (lane,) = planning.lanes_of(plan, 4, lambda: uuid.uuid4().hex[:8])
        folder = Folder(self.spark, str(self.folder / "lanes" / lane.id))
        session.carry(job.functions)
        schemas = resolution.columns(job.graph, job.functions, {}, "")
        return LaneQuery(
            job=LoadedJob(self.spark, settings, job.graph, job.functions, schemas, {}, ""),
            lane=lane,
            epoch=1,
            folder=folder.uri,
            planned=folder.batch,
            clock=str(self.folder / f"{lane.id}.clock"),
            starting={},
        )


def unique(count: int) -> list[bytes]:
    return [b"key-%d" % number for number in range(count)]


def skewed(count: int) -> list[bytes]:
    ranks = np.arange(1, KEYS + 1) ** -SKEW
    drawn = np.random.default_rng(1).choice(KEYS, count, p=ranks / ranks.sum())
    return [b"key-%d" % number for number in drawn.tolist()]


def ratios(
    bench: Bench,
    part: str,
    function: Callable[[Message], Any],
    factors: list[int],
    keys: Callable[[int], list[bytes]],
    pairs: int,
) -> None:
    """Measure each factor's rate, and print its ratio to the rate of factor 1 in the same round."""
    begun = time.perf_counter()
    for number in range(200):
        called = function({"n": number})
        if asyncio.iscoroutine(called):
            asyncio.run(called)
    each = WAIT_MS / 1000 if function is not computing else (time.perf_counter() - begun) / 200
    found: dict[int, list[float]] = {factor: [] for factor in factors}
    for number in range(1, pairs + 1):
        rates: dict[int, float] = {}
        for factor in [1, *factors] if number % 2 else [*reversed(factors), 1]:
            rows = round(bench.seconds / each * factor)
            seconds, cpu = bench.measured(function, factor, keys(rows))
            rates[factor] = rows / seconds
            told = f"{rows:,} rows in {seconds:.1f} s, {rates[factor]:,.0f} rows/s, {cpu:.1f} CPU s"
            print(f"{part} round {number}, factor {factor}: {told}", flush=True)
        for factor in factors:
            found[factor].append(rates[factor] / rates[1])
    for factor, several in found.items():
        print(_judged(f"{part}: factor {factor} / factor 1", several, GOALS[part].get(factor), above=True), flush=True)


def _judged(what: str, several: list[float], goal: float | None, above: bool) -> str:
    reached = statistics.median(several)
    told = f"{what}, median of {len(several)}: {reached:.2f}"
    if goal is None:
        return told
    met = reached >= goal if above else reached <= goal
    return f"{told}, goal {goal}: {'met' if met else 'missed'}"


def hashing(bench: Bench, pairs: int) -> None:
    """Measure how long it takes to compute a row's bucket: in Java, where rows are routed to Spark tasks, and in
    Python, where a Spark task's rows are divided into buckets.
    """
    key = F.expr("cast(concat('key-', id) as binary)")
    rows = bench.spark.range(0, HASHED, 1, 1).select(
        F.struct(key.alias("key"), F.col("id").alias("offset"), F.lit(0).alias("task")).alias(meta_column.NAME)
    )
    kept = rows.persist()
    kept.count()
    found: list[float] = []
    for _ in range(pairs + 1):
        taken = [
            _timed(lambda c=c: kept.agg(F.sum(c)).collect())
            for c in (F.octet_length(f"{meta_column.NAME}.key"), _bucket())
        ]
        found.append((taken[1] - taken[0]) / HASHED * 1e9)
    kept.unpersist()
    origin = pa.struct([("key", pa.binary()), ("offset", pa.int64()), ("bucket", pa.int32())])
    batch = pa.RecordBatch.from_pylist(
        [{meta_column.NAME: {"key": key, "offset": n}} for n, key in enumerate(unique(10_000))],
        pa.schema([(meta_column.NAME, origin)]),
    )
    python = [_timed(lambda: buckets.of_rows(batch, 64)) / batch.num_rows * 1e9 for _ in range(20 * pairs)]
    print(f"hash: {statistics.median(found[1:]):.0f} ns a row in Java, {statistics.median(python):.0f} ns in Python")


def _bucket() -> Column:
    hashed = ownership.of_key(meta_column.field("key"), meta_column.field("offset"))
    return F.pmod(hashed, F.lit(64))


def _timed(run: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    run()
    return time.perf_counter() - begun


def plain(bench: Bench, pairs: int) -> None:
    """Compare factor 1 with a lane that has no notion of buckets."""
    found = []
    for number in range(pairs + 1):
        sides: list[Callable[[], float]] = [
            lambda: bench.measured(same, 1, unique(PLAIN_ROWS))[1],
            lambda: _without_buckets(bench),
        ]
        cpu = {side: sides[side]() for side in ((0, 1) if number % 2 else (1, 0))}
        if number:
            found.append(cpu[0] / cpu[1])
            print(f"plain pair {number}: {cpu[0]:.2f} / {cpu[1]:.2f} CPU s = {found[-1]:.3f}", flush=True)
    print(_judged("plain: factor 1 / without buckets, CPU", found, PLAIN_GOAL, above=False), flush=True)


def _without_buckets(bench: Bench) -> float:
    ours = wrap.wrap
    wrap.wrap = _looping  # type: ignore[assignment]
    try:
        return bench.measured(same, 1, unique(PLAIN_ROWS))[1]
    finally:
        wrap.wrap = ours


def _looping(kind: str, function: Callable[[Message], Message], schema: pa.Schema, *_: object) -> Any:
    """Replaces :func:`anabranch.spark.functions.wrap.wrap`: calls a function on one message after another, without
    buckets or error handling.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            origin = batch.column(meta_column.NAME)
            messages = batch.drop_columns([meta_column.NAME]).to_pylist()
            result = pa.RecordBatch.from_pylist([function(message) for message in messages], schema=schema)
            whole = schema.append(pa.field(meta_column.NAME, origin.type))
            yield pa.RecordBatch.from_arrays([*result.columns, origin], schema=whole)

    return run


@contextmanager
def opened(seconds: float) -> Iterator[Bench]:
    """Start a broker and a session for this command."""
    with clusters.fresh() as cluster:
        kafka = KafkaSettings(bootstrap_servers=cluster.bootstrap_servers)
        settings = Settings(systems=SystemsSettings(default="kafka", kafka=kafka))
        spark = session.start(settings, output=cluster.folder / "log")
        bench = Bench(spark, kafka, cluster.folder, seconds)
        try:
            for factor in (1, 2, 1):
                bench.measured(same, factor, unique(20_000))
            yield bench
        finally:
            spark.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(PARTS), help=f"of {','.join(PARTS)}")
    parser.add_argument("--pairs", type=int, default=1, help="rounds, of which the medians are told")
    parser.add_argument("--plain-pairs", type=int, default=PLAIN_PAIRS, help="of the part plain")
    parser.add_argument("--seconds", type=float, default=20, help="that a batch takes at least")
    parser.add_argument("--factors", default="4,16,64", help="of blocking, skewed and async")
    arguments = parser.parse_args()
    parts = arguments.only.split(",")
    if not set(parts) <= set(PARTS):
        parser.error(f"parts are {', '.join(PARTS)}")
    factors = [int(text) for text in arguments.factors.split(",")]
    interruptible()
    with explained(), opened(arguments.seconds) as bench:
        for part in parts:
            match part:
                case "blocking":
                    ratios(bench, part, blocking, factors, unique, arguments.pairs)
                case "skewed":
                    ratios(bench, part, blocking, factors, skewed, arguments.pairs)
                case "async":
                    ratios(bench, part, waiting, factors, unique, arguments.pairs)
                case "computing":
                    ratios(bench, part, computing, [2], unique, arguments.pairs)
                case "hash":
                    hashing(bench, arguments.pairs)
                case "plain":
                    plain(bench, arguments.plain_pairs)


if __name__ == "__main__":
    main()
