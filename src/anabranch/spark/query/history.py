"""Lists the batches that a running query has completed, with their metrics, from the reports that Spark keeps."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from anabranch.spark.internals import query_progress
from anabranch.spark.query import clock

__all__ = ["CompletedBatch", "newest", "since"]

_STATE_BYTES = "rocksdbSstFileSize"
"""Spark's name for a RocksDB metric: the total size of the state's files."""
_REPLAY_MS = "rocksdbReplayChangeLogLatencyMs"
_SNAPSHOT = "SnapshotLastUploaded."
"""How the names of Spark's metrics for snapshots begin. The value of each of these metrics is the version of a state
partition's last snapshot.
"""


@dataclass(frozen=True)
class CompletedBatch:
    """Spark's metrics of a completed batch.

    Attributes:
        rows: the number of records that the batch has read.
        seconds: the sum of the durations of the batch's steps. (Spark's total includes the time for which the query was
            held.)
        late_groups: the late rows that Spark dropped: for an ``agg``, the number of their groups; for a ``join``, the
            number of rows.
        state_rows: the number of rows of state after the batch.
        ended: when the batch ended, in seconds since 1970.
        state_bytes: the size of the state's files after the batch.
        state_changes: how many rows of state the batch has changed or removed.
        replay_seconds: how long the batch's Spark tasks, in total, replayed changes to load the state.
        snapshot: the lowest version among the last snapshots of all state partitions. Only snapshots that this query
            has made count. 0 if a state partition has no such snapshot; None if Spark doesn't report these versions.
    """

    number: int
    rows: int
    seconds: float
    late_groups: int
    state_rows: int = 0
    ended: float = 0.0
    state_bytes: int = 0
    state_changes: int = 0
    replay_seconds: float = 0.0
    snapshot: int | None = None


def newest(spark: SparkSession, query: StreamingQuery) -> str:
    """A string that identifies a query's newest report; empty if there is no report yet."""
    return query_progress.newest(spark, query)


def since(spark: SparkSession, query: StreamingQuery, batch: int) -> list[CompletedBatch]:
    """The batches that a query has completed after ``batch``, oldest first. Batches are missing if Spark no longer has
    their reports.
    """
    found: list[CompletedBatch] = []
    for text in query_progress.recent(spark, query):
        told = json.loads(text)
        if told["batchId"] <= batch:
            break
        if "addBatch" in told["durationMs"]:
            found.append(_ran(told))
    return found[::-1]


def _ran(told: dict[str, Any]) -> CompletedBatch:
    begun = datetime.fromisoformat(told["timestamp"]).timestamp()
    operators = told["stateOperators"]
    metrics: list[dict[str, int]] = [state.get("customMetrics", {}) for state in operators]
    snapshots = [version for its in metrics for name, version in its.items() if name.startswith(_SNAPSHOT)]
    return CompletedBatch(
        number=told["batchId"],
        rows=sum(each["numInputRows"] for each in told["sources"] if not clock.is_of_clock(each["endOffset"])),
        seconds=sum(ms for part, ms in told["durationMs"].items() if part != "triggerExecution") / 1000,
        late_groups=sum(state["numRowsDroppedByWatermark"] for state in operators),
        state_rows=sum(state["numRowsTotal"] for state in operators),
        ended=begun + told["durationMs"].get("triggerExecution", 0) / 1000,
        state_bytes=sum(its.get(_STATE_BYTES, 0) for its in metrics),
        state_changes=sum(state.get("numRowsUpdated", 0) + state.get("numRowsRemoved", 0) for state in operators),
        replay_seconds=sum(its.get(_REPLAY_MS, 0) for its in metrics) / 1000,
        snapshot=max(0, min(snapshots)) if snapshots else None,
    )
