"""The names of the local properties with which Spark identifies the query, the run and the batch of a Spark task or of
a query's thread."""

from __future__ import annotations

__all__ = ["BATCH", "QUERY", "RUN"]

BATCH = "streaming.sql.batchId"
QUERY = "sql.streaming.queryId"
RUN = "spark.jobGroup.id"
"""The id of a query's run."""
