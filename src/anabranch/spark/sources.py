"""Our Python sources, as Spark's session knows them: registered such that queries share nothing that Spark changes."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from anabranch.spark.clock import EventTimeSource
from anabranch.systems.embedded.spark import EmbeddedSource

__all__ = ["SOURCES", "environment", "register"]

SOURCES = EmbeddedSource, EventTimeSource


def register(spark: SparkSession) -> None:
    """Register the sources.

    All queries of a session share a registered source's function, and with it one ``java.util.HashMap`` of environment
    variables. Whenever a query starts, Spark puts some variables there (``PythonStreamingSourceRunner.init``), while
    tasks of other queries serialize it. Of variables that are there already only the value is set; new ones change the
    map's structure, and two threads that do so at once leave a map whose size isn't the number of its entries: every
    later task then fails with ``OptionalDataException``. So all of them are there before a source is registered.
    """
    spark.sparkContext.environment.update(environment(spark))
    for source in SOURCES:
        spark.dataSource.register(source)


def environment(spark: SparkSession) -> dict[str, str]:
    """What Spark's runners on the driver and in tasks put into the environment of a function: all of them set these."""
    jvm: Any = spark._jvm
    java: Any = spark.sparkContext._jsc
    conf = java.sc().conf()
    return {
        "SPARK_LOCAL_DIRS": jvm.org.apache.spark.util.Utils.getLocalDir(conf),  # a runner then names the folders in it
        "SPARK_AUTH_SOCKET_TIMEOUT": str(conf.getTimeAsSeconds("spark.python.authenticate.socketTimeout", "15s")),
        "SPARK_BUFFER_SIZE": str(conf.getInt("spark.buffer.size", 65536)),
        "SPARK_PYTHON_RUNTIME": "PYTHON_WORKER",
    }
