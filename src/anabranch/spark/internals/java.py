"""Accesses the Java objects behind PySpark's objects. PySpark's references to them aren't public.

Each class is looked up once, normally by its full name. With an expression such as ``jvm.org.apache.x``, Java would
search all of Spark's jars for a class at each dot, and py4j would ask Java again at each use.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from py4j.java_gateway import JavaClass  # type: ignore[import-untyped]
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

__all__ = [
    "array",
    "class_file",
    "column",
    "context",
    "execution",
    "frame",
    "gateway",
    "has_class",
    "items",
    "java_class",
    "jvm",
    "keep_pysparks_classes",
    "let_java_call",
    "plan",
    "query",
    "reason",
    "session",
    "singleton",
    "text",
]


_PYSPARKS = (
    "PythonRDD",
    "PythonSQLUtils",
    "PythonUtils",
    "SerDeUtil",
    "SimplePythonFunction",
    "functions",
    "org.apache.spark.sql.classic.SparkSession",
    "org.apache.spark.sql.classic.SparkSession$",
    "org.apache.spark.sql.functions",
)
"""The classes that PySpark uses whenever it makes a column, a function or a DataFrame."""


def jvm(spark: SparkSession) -> Any:
    """py4j's view of the JVM, whose attributes are packages and classes."""
    return spark._jvm


def java_class(spark: SparkSession, name: str) -> Any:
    """A Java class, by its full name."""
    view = jvm(spark)
    found = getattr(view, name)
    if isinstance(found, JavaClass):
        setattr(view, name, found)  # py4j asks Java only for attributes that the view lacks
    return found


def keep_pysparks_classes(spark: SparkSession) -> None:
    """Look up and keep the Java classes in :data:`_PYSPARKS`, so that PySpark needn't look them up. PySpark uses short
    names, and Java searches all jars ten times to find a class by a short name.
    """
    for name in _PYSPARKS:
        java_class(spark, name)


def singleton(spark: SparkSession, name: str) -> Any:
    """A Scala ``object``, by its full name."""
    return getattr(java_class(spark, f"{name}$"), "MODULE$")


def has_class(spark: SparkSession, name: str) -> bool:
    """Whether a class could be loaded. The class isn't loaded."""
    loader = java_class(spark, "java.lang.Thread").currentThread().getContextClassLoader()
    return loader.getResource(f"{name.replace('.', '/')}.class") is not None


def class_file(spark: SparkSession, name: str) -> bytes | None:
    """The bytes of the file from which a class would be loaded; None if there is no file. The class isn't loaded."""
    loader = java_class(spark, "java.lang.Thread").currentThread().getContextClassLoader()
    stream = loader.getResourceAsStream(f"{name.replace('.', '/')}.class")
    if stream is None:
        return None
    try:
        return bytes(java_class(spark, "org.apache.commons.io.IOUtils").toByteArray(stream))
    finally:
        stream.close()


def gateway(spark: SparkSession) -> Any:
    """py4j's connection to the JVM."""
    return spark.sparkContext._gateway


def let_java_call(spark: SparkSession) -> None:
    """Allow Java objects to call Python objects, as ``foreachBatch`` does."""
    ensure_callback_server_started(gateway(spark))  # type: ignore[no-untyped-call]


def session(spark: SparkSession) -> Any:
    """The ``SparkSession`` of Scala."""
    return spark._jsparkSession


def context(spark: SparkSession) -> Any:
    """The ``JavaSparkContext``."""
    return spark.sparkContext._jsc


def query(streaming: StreamingQuery) -> Any:
    """The ``StreamingQuery`` of Scala."""
    return streaming._jsq


def execution(streaming: StreamingQuery) -> Any:
    """The ``StreamExecution`` that runs a query."""
    return query(streaming).streamingQuery()


def frame(rows: DataFrame) -> Any:
    """The ``Dataset`` of Scala."""
    return rows._jdf


def plan(rows: DataFrame) -> Any:
    """The ``QueryExecution`` of a DataFrame, which makes the DataFrame's plans on demand."""
    return frame(rows).queryExecution()


def column(value: Column) -> Any:
    """The ``Column`` of Scala."""
    return value._jc


def array(spark: SparkSession, kind: Any, values: Sequence[Any]) -> Any:
    """A Java array of the class ``kind`` with these elements."""
    made = gateway(spark).new_array(kind, len(values))
    for place, value in enumerate(values):
        made[place] = value
    return made


def items(scala: Any) -> Iterator[Any]:
    """The elements of a Scala collection."""
    several = scala.iterator()
    while several.hasNext():
        yield several.next()


def text(spark: SparkSession, values: Any) -> str:
    """The elements of a Java array as text, fetched in a single call. (Hundreds of calls would take too long.)"""
    return str(java_class(spark, "org.apache.commons.lang3.ArrayUtils").toString(values))


def reason(error: Exception) -> str:
    """The first line of Java's description of an error's root cause. (py4j's message begins with the failed call.) If
    the error doesn't come from Java, the first line of the error's message."""
    cause = getattr(error, "java_exception", None)
    while cause is not None and cause.getCause() is not None:
        cause = cause.getCause()
    said = str(error if cause is None else cause.toString()).strip()
    return said.splitlines()[0] if said else type(error).__name__
