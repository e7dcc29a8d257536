"""Determines the environment variables that Spark's Python runners add to the function of a Python source. anabranch
sets them before it registers a source; see :mod:`anabranch.spark.session.registered_sources`.
"""

from __future__ import annotations

import tempfile

from pyspark.sql import SparkSession

from anabranch.spark.internals import java
from anabranch.spark.internals.surface import JavaMembers, Surface

__all__ = ["SURFACE", "of_session", "probe"]

_UTILS = "org.apache.spark.util.Utils"
_TIMEOUT, _BUFFER = "spark.python.authenticate.socketTimeout", "spark.buffer.size"

SURFACE = Surface(
    "source_environment",
    "the environment of Python sources",
    [JavaMembers(_UTILS, ("getLocalDir",))],
    otherwise="sources begin with values from Spark's public settings, which Spark sets again when a query starts",
)
probe = SURFACE.probe


def of_session(spark: SparkSession) -> dict[str, str]:
    """The environment variables that all of Spark's Python runners set, in the driver and in Spark tasks, with their
    values.
    """
    if SURFACE.works(spark):
        conf = java.context(spark).sc().conf()
        # Later, runners set this variable to subfolders of these folders.
        folders = java.java_class(spark, _UTILS).getLocalDir(conf)
        timeout, buffer = str(conf.getTimeAsSeconds(_TIMEOUT, "15s")), str(conf.getInt(_BUFFER, 65536))
    else:
        settings = spark.sparkContext.getConf()
        folders = settings.get("spark.local.dir") or tempfile.gettempdir()
        timeout = (settings.get(_TIMEOUT) or "15s").removesuffix("s")
        buffer = settings.get(_BUFFER) or "65536"
    return {
        "SPARK_LOCAL_DIRS": folders,
        "SPARK_AUTH_SOCKET_TIMEOUT": timeout,
        "SPARK_BUFFER_SIZE": buffer,
        "SPARK_PYTHON_RUNTIME": "PYTHON_WORKER",
    }
