"""What tests look at, or break, in Spark's private parts, and anabranch itself never touches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.errors import utils
from pyspark.sql import SparkSession
from pyspark.sql.pandas.serializers import ArrowStreamSerializer

from anabranch.spark.internals import java

__all__ = ["ArrowStreamSerializer", "collect_garbage", "compilations", "notes_lines", "source_environment"]


def collect_garbage(spark: SparkSession) -> None:
    """Let Java look for what nobody refers to."""
    java.java_class(spark, "java.lang.System").gc()


def compilations(spark: SparkSession) -> Callable[[], int]:
    """How often Spark has compiled code that it made, when it is asked."""
    metrics = java.java_class(spark, "org.apache.spark.metrics.source.CodegenMetrics")
    return lambda: int(metrics.METRIC_COMPILATION_TIME().getCount())


def notes_lines() -> bool:
    """Whether PySpark notes the line of Python that each column comes from."""
    return utils.is_debugging_enabled()


def source_environment(spark: SparkSession, source: str) -> tuple[dict[str, str], int]:
    """The environment of a registered source's function, and how often the map that holds it has changed its shape."""
    manager = java.session(spark).sessionState().dataSourceManager()
    environment: Any = manager.lookupDataSource(source).dataSourceCls().envVars()
    changes = java.java_class(spark, "java.lang.Class").forName("java.util.HashMap").getDeclaredField("modCount")
    changes.setAccessible(True)
    return {**environment}, changes.getInt(environment)
