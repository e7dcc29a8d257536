"""Changes how many rows a running query lets each source contribute to a batch. Also reads a batch's offsets.

When a query starts, Spark asks each source for its limit, and there is no public way to change the limit later. The
query keeps the limits in a field, ``uniqueSources``, which it reads whenever it plans a batch. If this Spark has no
such field, the limits stay the same.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from anabranch.spark.internals import java, local_properties
from anabranch.spark.internals.surface import JavaMembers, Surface

__all__ = ["SURFACE", "ReadLimits", "current", "probe"]

_LIMIT = "org.apache.spark.sql.connector.read.streaming.ReadLimit"
_LIMIT_IN_PYTHON = "org.apache.spark.sql.execution.datasources.v2.python.PythonStreamingSourceReadLimit"
_EXECUTION = "org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution"
_FIELD = "uniqueSources"
_SETTER = f"{_FIELD}_$eq"

SURFACE = Surface(
    "read_limits",
    "sizing batches by time ([job] target_batch_seconds)",
    [
        JavaMembers(_EXECUTION, (_FIELD, _SETTER, "getLatestExecutionContext")),
        JavaMembers(_LIMIT, ("maxRows",)),
        JavaMembers(_LIMIT_IN_PYTHON),
    ],
    otherwise="the batches of a lane keep the size that its query begins with",
)
probe = SURFACE.probe


class ReadLimits:
    """How many rows each source of one query may contribute to a batch. These limits can be changed only after Spark
    has asked the query's sources for them. Thread-safe.

    Spark reads the limits in the query's own thread when it plans a batch. So new limits are certain to apply to the
    next batch only if they are set in the query's thread, or while the query is held.
    """

    def __init__(self, spark: SparkSession, query: StreamingQuery) -> None:
        self._spark = spark
        self._execution: Any = java.execution(query)
        self._lock = threading.Lock()
        self._before: Any = None
        self._known: list[Any] = []

    def begins(self) -> list[str]:
        """The offset at which the running batch begins in each source, as JSON, in a fixed order. '' stands for the
        beginning of a source.
        """
        return self._texts(self._execution.getLatestExecutionContext().startOffsets())

    def ends(self) -> list[str]:
        """The offset at which the running batch ends in each source, as JSON, in the order of :meth:`begins`. '' stands
        for a source for which the batch has no end offset.
        """
        return self._texts(self._execution.getLatestExecutionContext().endOffsets())

    def _texts(self, offsets: Any) -> list[str]:
        found = [offsets.get(source) for source in self._sources()]
        return [str(each.get().json()) if each.isDefined() else "" for each in found]

    def give(self, rows: Mapping[int, int]) -> None:
        """Set how many rows sources may contribute to a batch. The new limits apply to the batches that Spark plans
        from now on. But between :meth:`hold` and :meth:`release`, all limits stay 0, and the new limits apply after
        :meth:`release`.

        Args:
            rows: the new limit of each source, by the source's index in the result of :meth:`ends`. Sources without an
                entry keep their limits.
        """
        with self._lock:
            limits = self._limits if self._before is None else self._before
            for place, source in enumerate(self._sources()):
                if place in rows:
                    limits = limits.updated(source, self._limit(limits.apply(source), rows[place]))
            if self._before is None:
                self._set(limits)
            else:
                self._before = limits

    def hold(self) -> None:
        """Set all limits to 0, so that no source contributes anything."""
        with self._lock:
            limits = self._before = self._limits
            for source in self._sources():
                limits = limits.updated(source, self._limit(limits.apply(source), 0))
            self._set(limits)

    def release(self) -> None:
        """Restore the limits from before :meth:`hold`, with the changes that :meth:`give` has made since then."""
        with self._lock:
            limits, self._before = self._before, None
            if limits is not None:
                self._set(limits)

    @property
    def _limits(self) -> Any:
        return getattr(self._execution, _FIELD)()

    def _sources(self) -> list[Any]:
        """The query's sources. They never change, so they are cached: each call to the JVM delays the batch."""
        if not self._known:
            sources = self._limits.keysIterator()
            while sources.hasNext():
                self._known.append(sources.next())
        return self._known

    def _limit(self, now: Any, rows: int) -> Any:
        """The limit ``rows``, as an object of the same kind as ``now``, the source's current limit. (The limits of
        Python sources have a separate class.)
        """
        if now.getClass().getName() == _LIMIT_IN_PYTHON:
            told = json.dumps({"_type": "ReadMaxRows", "max_rows": rows})
            return java.java_class(self._spark, _LIMIT_IN_PYTHON)(told)
        return java.java_class(self._spark, _LIMIT).maxRows(rows)

    def _set(self, limits: Any) -> None:
        getattr(self._execution, _SETTER)(limits)


def current(spark: SparkSession) -> StreamingQuery | None:
    """The query whose batch this thread runs. None if this thread runs no batch, if the query has ended, or if limits
    can't be changed.
    """
    if not SURFACE.works(spark):
        return None
    number = spark.sparkContext.getLocalProperty(local_properties.QUERY)
    return None if number is None else spark.streams.get(number)
