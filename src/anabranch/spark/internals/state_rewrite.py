"""Copies chosen rows of state to another checkpoint, with the part of Spark that repartitions a stopped query's state.

Spark has no public call that copies only some rows of state, but its internal call for repartitioning accepts any
function that transforms the rows (tested with 4.3.0).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from anabranch.spark.internals import java, state_rows
from anabranch.spark.internals.surface import JavaMembers, Surface

__all__ = ["SURFACE", "probe", "rewrite"]

_REWRITER = "org.apache.spark.sql.execution.streaming.state.StateRewriter"

SURFACE = Surface(
    "state_rewrite",
    "anabranch compact",
    [
        JavaMembers(_REWRITER, ("run",)),
        JavaMembers("org.apache.spark.sql.internal.SessionState", ("newHadoopConf",)),
        *state_rows.SURFACE.needs,
    ],
)
probe = SURFACE.probe


class _Function:
    """An object that the JVM calls as a ``scala.Function1`` of DataFrames."""

    def __init__(self, spark: SparkSession, function: Callable[[DataFrame], DataFrame]) -> None:
        self._spark = spark
        self._function = function

    def apply(self, frame: Any) -> Any:
        return java.frame(self._function(DataFrame(frame, self._spark)))

    class Java:
        implements = ("scala.Function1",)


def rewrite(
    spark: SparkSession,
    source: str,
    target: str,
    batch: int,
    partitions: int,
    chosen: Callable[[DataFrame], DataFrame],
) -> None:
    """Copy state from one checkpoint to another: the rows that ``chosen`` selects from the state of ``source`` after a
    committed batch become the state of ``target`` after the same batch.

    Args:
        target: a checkpoint with the same logs and schemas as ``source``, but without state.
        partitions: the number of state partitions in both checkpoints.
        chosen: given all rows of ``source``, returns the rows to write. Both have the form of :func:`state_rows.read`.

    Raises:
        UnsupportedSparkError: this Spark can't rewrite state.
    """
    SURFACE.insist(spark)
    java.let_java_call(spark)
    some = java.java_class(spark, "scala.Option").apply
    session = java.session(spark)
    function = _Function(spark, lambda rows: chosen(rows).repartition(partitions, F.col(state_rows.KEY)))
    conf = session.sessionState().newHadoopConf()
    rewriter = java.java_class(spark, _REWRITER)
    rewriter(session, batch, batch, target, conf, some(source), some(function), some(None)).run()
