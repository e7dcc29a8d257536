"""The names under which Spark passes on their purpose to a task and to the thread of a query."""

from __future__ import annotations

__all__ = ["BATCH", "QUERY", "RUN"]

BATCH = "streaming.sql.batchId"
QUERY = "sql.streaming.queryId"
RUN = "spark.jobGroup.id"
"""The id of a query's run."""
