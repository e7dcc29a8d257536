"""Registers anabranch's Python sources in a Spark session, and prevents a race between queries that use the same
source.
"""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource

from anabranch.spark.internals import source_environment
from anabranch.spark.query.clock import EventTimeSource
from anabranch.systems.reading.spark import spark_side
from anabranch.systems.systems import Systems

__all__ = ["register", "sources"]


def sources(systems: Systems) -> list[type[DataSource]]:
    """The event-time source and the sources of all systems, without duplicates."""
    of_systems = [source for system in systems.all for source in spark_side(system).SOURCES]
    return [EventTimeSource, *dict.fromkeys(of_systems)]


def register(spark: SparkSession, systems: Systems) -> None:
    """Set all environment variables that Spark would otherwise set when a query starts. Then register the event-time
    source and the sources of all systems in a session.

    All queries of a session that use the same registered source share the source's Python function. This function
    contains a ``java.util.HashMap`` of environment variables. Whenever a query starts, Spark puts some variables into
    the map (``PythonStreamingSourceRunner.init``). At the same time, Spark tasks of other queries may be serializing
    the map.

    A variable that the map already contains does no harm, but a new variable changes the map's structure. If two
    threads add variables at the same time, the map's size may afterwards differ from the number of the map's entries.
    Every later Spark task then fails with ``OptionalDataException``.
    """
    spark.sparkContext.environment.update(source_environment.of_session(spark))
    for source in sources(systems):
        spark.dataSource.register(source)
