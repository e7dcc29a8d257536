"""Finds out whether a running session has Spark's Kafka connector. (It can't be added to a running session.)"""

from __future__ import annotations

from pyspark.sql import SparkSession

from anabranch.spark.internals import java
from anabranch.spark.internals.surface import JavaMembers, Surface

__all__ = ["SURFACE", "has_kafka_connector", "probe"]

_CONNECTOR = "org/apache/spark/sql/kafka010/KafkaSourceProvider.class"

SURFACE = Surface(
    "class_path",
    "seeing whether a session has Spark's Kafka connector",
    [JavaMembers("java.lang.ClassLoader", ("getResource",))],
    otherwise="Spark is asked to open a topic",
)
probe = SURFACE.probe


def has_kafka_connector(spark: SparkSession) -> bool:
    """Whether a session can read and write topics."""
    if SURFACE.works(spark):
        thread = java.java_class(spark, "java.lang.Thread").currentThread()
        return thread.getContextClassLoader().getResource(_CONNECTOR) is not None
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", "localhost:9").option("subscribe", "x")
    try:
        reader.load()
    except Exception as error:
        if "kafka" in str(error):
            return False
        raise
    return True
