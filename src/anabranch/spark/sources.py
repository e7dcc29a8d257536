"""Our Python sources, as Spark's session knows them: registered such that queries share nothing that Spark changes."""

from __future__ import annotations

from pyspark.sql import SparkSession

from anabranch.spark.clock import EventTimeSource
from anabranch.spark.internals import source_environment
from anabranch.systems.embedded.spark import EmbeddedSource

__all__ = ["SOURCES", "register"]

SOURCES = EmbeddedSource, EventTimeSource


def register(spark: SparkSession) -> None:
    """Register the sources.

    All queries of a session share a registered source's function, and with it one ``java.util.HashMap`` of environment
    variables. Whenever a query starts, Spark puts some variables there (``PythonStreamingSourceRunner.init``), while
    tasks of other queries serialize it. Of variables that are there already only the value is set; new ones change the
    map's structure, and two threads that do so at once leave a map whose size isn't the number of its entries: every
    later task then fails with ``OptionalDataException``. So all of them are there before a source is registered.
    """
    spark.sparkContext.environment.update(source_environment.of_session(spark))
    for source in SOURCES:
        spark.dataSource.register(source)
