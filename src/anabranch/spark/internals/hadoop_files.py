"""Accesses files through Hadoop's classes, with Spark's configuration. (PySpark itself can't access the files of a
storage root.)
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from anabranch.spark.internals import java
from anabranch.spark.internals.surface import JavaMembers, Surface

__all__ = ["SURFACE", "Hadoop", "lock", "probe"]

_FS = "org.apache.hadoop.fs"

SURFACE = Surface(
    "hadoop_files",
    "the folders of lanes",
    [
        JavaMembers(f"{_FS}.FileSystem"),
        JavaMembers(f"{_FS}.FileUtil"),
        JavaMembers("org.apache.commons.lang3.ArrayUtils"),
        JavaMembers("org.apache.commons.io.IOUtils"),
        JavaMembers("org.apache.commons.codec.digest.DigestUtils", ("sha256Hex",)),
    ],
)
probe = SURFACE.probe


class Hadoop:
    """Hadoop's classes for files, in a session's JVM.

    Raises:
        UnsupportedSparkError: this Spark lacks some of these classes.
    """

    def __init__(self, spark: SparkSession) -> None:
        SURFACE.insist(spark)
        self._spark = spark
        self.path: Any = java.java_class(spark, f"{_FS}.Path")
        self.files: Any = java.java_class(spark, f"{_FS}.FileUtil")
        self.io: Any = java.java_class(spark, "org.apache.commons.io.IOUtils")
        self.conf: Any = java.context(spark).hadoopConfiguration()

    def sha256(self, fs: Any, path: Any) -> str:
        """The SHA-256 of a file's content, computed in the JVM."""
        stream = fs.open(path)
        try:
            return str(java.java_class(self._spark, "org.apache.commons.codec.digest.DigestUtils").sha256Hex(stream))
        finally:
            stream.close()

    def text(self, values: Any) -> str:
        """The elements of a Java array as text, fetched in a single call."""
        return java.text(self._spark, values)


def lock(spark: SparkSession, path: str) -> Any:
    """Let the JVM lock a local file through the operating system. Returns an object for the lock, or None if another
    process has the lock. The file stays locked at least as long as Python has a reference to this object.
    """
    holder = java.java_class(spark, "java.io.RandomAccessFile")(path, "rw")
    if holder.getChannel().tryLock() is None:
        holder.close()
        return None
    return holder
