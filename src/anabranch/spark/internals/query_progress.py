"""Reads Spark's reports on the most recent batches of a running query.

PySpark's own ``recentProgress`` fetches and parses all reports that Spark keeps. This module fetches a report only when
the report is needed, unless this Spark lacks the private surface.
"""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from anabranch.spark.internals import java
from anabranch.spark.internals.surface import JavaMembers, Surface

__all__ = ["SURFACE", "newest", "recent"]

SURFACE = Surface(
    "query_progress",
    "reports of batches",
    [
        JavaMembers("org.apache.spark.sql.streaming.StreamingQuery", ("lastProgress", "recentProgress")),
        JavaMembers("org.apache.spark.sql.streaming.StreamingQueryProgress", ("json", "timestamp")),
    ],
    otherwise="reports of batches are read in PySpark's way, which takes longer",
)
probe = SURFACE.probe


def newest(spark: SparkSession, query: StreamingQuery) -> str:
    """The timestamp in the newest report of a query, as text; empty if there is no report yet."""
    if SURFACE.works(spark):
        report = java.query(query).lastProgress()
        return "" if report is None else str(report.timestamp())
    last = query.lastProgress
    return "" if last is None else last.timestamp


def recent(spark: SparkSession, query: StreamingQuery) -> Iterator[str]:
    """The reports that Spark keeps, as JSON, newest first."""
    if not SURFACE.works(spark):
        yield from (each.json for each in reversed(query.recentProgress))
        return
    reports = java.query(query).recentProgress()
    for place in reversed(range(len(reports))):
        yield reports[place].json()
