"""Reads the observations of a query's running batch. (Spark itself reports observations only after the batch.)"""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import SparkSession

from anabranch.spark.internals import java
from anabranch.spark.internals.surface import JavaMembers, Surface

__all__ = ["SURFACE", "of_query", "probe"]

SURFACE = Surface(
    "observed_metrics",
    "publishing a batch: how many of its records can't be read, and how far it is in event time",
    [
        JavaMembers("org.apache.spark.sql.execution.streaming.runtime.StreamingQueryWrapper", ("streamingQuery",)),
        JavaMembers("org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution", ("lastExecution",)),
        JavaMembers("org.apache.spark.sql.execution.streaming.runtime.IncrementalExecution", ("observedMetrics",)),
    ],
    always=True,
)
probe = SURFACE.probe


def of_query(spark: SparkSession, name: str) -> dict[str, dict[str, Any]]:
    """The observations that Spark has made so far about the running batch of the query ``name``: a dict from
    each observation's name to a dict of its values by name. {} if no such query is running. The observations are
    complete once the batch's rows have been computed.
    """
    active = [each for each in java.session(spark).streams().active() if each.name() == name]
    if not active:
        return {}
    metrics = active[0].streamingQuery().lastExecution().observedMetrics()
    found: dict[str, dict[str, Any]] = {}
    names = metrics.keysIterator()
    while names.hasNext():
        observation = names.next()
        found[observation] = json.loads(metrics.apply(observation).json())
    return found
