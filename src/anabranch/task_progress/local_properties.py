"""The names under which Spark tells a task, and the thread of a query, their purpose."""

from __future__ import annotations

__all__ = ["BATCH", "QUERY", "RUN"]

BATCH = "streaming.sql.batchId"
QUERY = "sql.streaming.queryId"
RUN = "spark.jobGroup.id"
"""The id of a query's run."""
