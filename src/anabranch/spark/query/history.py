"""What a running query says of the batches that it has run, at a cost that doesn't grow with how many it remembers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from anabranch.spark.internals import query_progress
from anabranch.spark.query import clock

__all__ = ["BatchRun", "newest", "since"]

_STATE_BYTES = "rocksdbSstFileSize"
"""What Spark's RocksDB calls the size of all files of a state."""


@dataclass(frozen=True)
class BatchRun:
    """A batch that was run: the records that it read, how long it took, its groups of late rows, and the rows of state
    after it. ``seconds`` are those of its parts: a query that is held waits, too. ``ended``: when, in seconds since
    1970; ``state_bytes``: of the files that keep the state."""

    number: int
    rows: int
    seconds: float
    late_groups: int
    state_rows: int = 0
    ended: float = 0.0
    state_bytes: int = 0


def newest(spark: SparkSession, query: StreamingQuery) -> str:
    """What tells the newest news of a query from older ones; '' while there are none."""
    return query_progress.newest(spark, query)


def since(spark: SparkSession, query: StreamingQuery, batch: int) -> list[BatchRun]:
    """The batches after one that a query has run, oldest first, as far as it remembers them."""
    found: list[BatchRun] = []
    for text in query_progress.recent(spark, query):
        told = json.loads(text)
        if told["batchId"] <= batch:
            break
        if "addBatch" in told["durationMs"]:
            found.append(_ran(told))
    return found[::-1]


def _ran(told: dict[str, Any]) -> BatchRun:
    begun = datetime.fromisoformat(told["timestamp"]).timestamp()
    return BatchRun(
        number=told["batchId"],
        rows=sum(each["numInputRows"] for each in told["sources"] if not clock.is_of_clock(each["endOffset"])),
        seconds=sum(ms for part, ms in told["durationMs"].items() if part != "triggerExecution") / 1000,
        late_groups=sum(state["numRowsDroppedByWatermark"] for state in told["stateOperators"]),
        state_rows=sum(state["numRowsTotal"] for state in told["stateOperators"]),
        ended=begun + told["durationMs"].get("triggerExecution", 0) / 1000,
        state_bytes=sum(state.get("customMetrics", {}).get(_STATE_BYTES, 0) for state in told["stateOperators"]),
    )
