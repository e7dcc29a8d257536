"""The one Spark session of a test process: the one that runs already, else a small one of ours."""

from __future__ import annotations

import os
import sys

from pyspark import SparkContext
from pyspark.sql import SparkSession

from anabranch.config import Settings, SparkSettings
from anabranch.spark import session
from anabranch.systems.embedded.spark import EmbeddedSource

__all__ = ["shared"]

# Such a JVM lives for a minute: the quick compiler alone makes it a quarter shorter.
_SHORT_LIVED = {"spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseParallelGC -Xms256m"}
_SMALL = Settings(spark=SparkSettings(master="local[2,4]", memory="1g", conf=_SHORT_LIVED))


def shared() -> SparkSession:
    """The session of this process, started at the first call. It ends with the process.

    A session that somebody else has started gets the settings that lanes need.
    """
    if SparkContext._active_spark_context is None:
        known = [os.environ["PYTHONPATH"]] if os.environ.get("PYTHONPATH") else []
        os.environ["PYTHONPATH"] = os.pathsep.join([*known, *(path for path in sys.path if os.path.isdir(path))])
        return session.start(_SMALL)
    spark = SparkSession.builder.getOrCreate()
    for name, value in session.SETTINGS.items():
        if name.startswith("spark.sql."):
            spark.conf.set(name, value)
    spark.dataSource.register(EmbeddedSource)
    return spark
