"""Writes a checkpoint's state anew, by the part of Spark that repartitions the state of a stopped query.

Spark has no public call for that, but its own one takes any function of the rows (tried with 4.3.0).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from anabranch.spark import state

__all__ = ["rewrite"]

_REWRITER = "org.apache.spark.sql.execution.streaming.state.StateRewriter"


class _Function:
    """What the JVM calls as a ``scala.Function1`` of data frames."""

    def __init__(self, spark: SparkSession, function: Callable[[DataFrame], DataFrame]) -> None:
        self._spark = spark
        self._function = function

    def apply(self, frame: Any) -> Any:
        return self._function(DataFrame(frame, self._spark))._jdf

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
    """Write rows of the state that one checkpoint has after a committed batch as that of another one after that batch.

    Args:
        target: has the same logs, and the schemas of its state, but no state.
        partitions: those of the state, in both.
        chosen: gives the rows to write from those of ``source``, each as :func:`anabranch.spark.state.rows` does.
    """
    gateway: Any = spark.sparkContext._gateway
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    jvm: Any = spark._jvm
    some = getattr(jvm, "scala.Option").apply
    session: Any = spark._jsparkSession
    function = _Function(spark, lambda rows: chosen(rows).repartition(partitions, F.col(state.KEY)))
    conf = session.sessionState().newHadoopConf()
    rewriter = getattr(jvm, _REWRITER)
    rewriter(session, batch, batch, target, conf, some(source), some(function), some(None)).run()
