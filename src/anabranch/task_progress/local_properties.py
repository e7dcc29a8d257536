"""The names of Spark's local properties that tell Spark tasks and the thread of a query what they belong to."""

from __future__ import annotations

__all__ = ["BATCH", "QUERY", "RUN"]

BATCH = "streaming.sql.batchId"
QUERY = "sql.streaming.queryId"
RUN = "spark.jobGroup.id"
"""The id of a query's run."""
