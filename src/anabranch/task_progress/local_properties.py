"""The names of the local properties with which Spark identifies a Spark task's query, run and batch."""

from __future__ import annotations

__all__ = ["BATCH", "QUERY", "RUN"]

BATCH = "streaming.sql.batchId"
QUERY = "sql.streaming.queryId"
RUN = "spark.jobGroup.id"
"""The id of a query's run."""
