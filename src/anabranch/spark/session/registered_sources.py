"""Our Python sources, as Spark's session knows them: registered such that queries share nothing that Spark changes."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource

from anabranch.spark.internals import source_environment
from anabranch.spark.query.clock import EventTimeSource
from anabranch.systems.reading.spark import spark_side
from anabranch.systems.systems import Systems

__all__ = ["register", "sources"]


def sources(systems: Systems) -> list[type[DataSource]]:
    """The source of event time and the sources of all systems, each once."""
    of_systems = [source for system in systems.all for source in spark_side(system).SOURCES]
    return [EventTimeSource, *dict.fromkeys(of_systems)]


def register(spark: SparkSession, systems: Systems) -> None:
    """Register the sources.

    All queries of a session share a registered source's function, and with it one ``java.util.HashMap`` of environment
    variables. Whenever a query starts, Spark puts some variables there (``PythonStreamingSourceRunner.init``), while
    tasks of other queries serialize it. Of variables that are there already only the value is set; new ones change the
    map's structure, and two threads that do so at once leave a map whose size isn't the number of its entries: every
    later task then fails with ``OptionalDataException``. So all of them are there before a source is registered.
    """
    spark.sparkContext.environment.update(source_environment.of_session(spark))
    for source in sources(systems):
        spark.dataSource.register(source)
