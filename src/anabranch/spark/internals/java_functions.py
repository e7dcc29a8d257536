"""Compiles anabranch's Java classes, most of which are functions on columns. Janino, a compiler in Spark, compiles a
file when its class is first needed, or in advance.
"""

from __future__ import annotations

import threading
import zipfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyspark.sql import Column, SparkSession
from pyspark.sql.types import DataType

from anabranch import scratch
from anabranch.errors import AnabranchError
from anabranch.spark.internals import java
from anabranch.spark.internals.surface import JavaMembers, Surface
from anabranch.spark.session import cluster

__all__ = ["SURFACE", "applied", "class_of", "java_type", "prepare", "probe"]

_PACKAGE = "anabranch"
_SOURCES = Path(__file__).parent
_OF_MOST_JOBS = ("BatchClock", "StrictJson", "Utf8")
"""The classes that nearly every lane needs for its first query."""
_MUTABLE = "org.apache.spark.util.MutableURLClassLoader"
_SQL = "org.apache.spark.sql"
_UTILS = "org.apache.spark.util.Utils"
_COMPILER = "org.codehaus.janino.SimpleCompiler"
_compiling = threading.Lock()

SURFACE = Surface(
    "java_functions",
    "values of text, JSON, Avro and Protobuf",
    [
        JavaMembers(_COMPILER, ("cook", "getBytecodes", "setParentClassLoader")),
        JavaMembers(_MUTABLE, ("addURL",)),
        JavaMembers(_UTILS, ("getContextOrSparkClassLoader",)),
        JavaMembers(f"{_SQL}.functions"),
        JavaMembers(f"{_SQL}.api.java.UDF1", ("call",)),
        JavaMembers(f"{_SQL}.types.DataType", ("fromJson",)),
        JavaMembers("org.apache.spark.unsafe.types.UTF8String", ("fromBytes", "isValid")),
    ],
)
probe = SURFACE.probe


def applied(name: str, arguments: Callable[[SparkSession], Sequence[Any]], column: Column, result: DataType) -> Column:
    """The column that results from applying a Java function to ``column``. Uses the active session.

    Args:
        name: the name of the function's class (a ``UDF1``), and of the class's file, which is next to this module.
        arguments: returns the arguments for the constructor of this class.
        result: the type of the resulting column.

    Raises:
        UnsupportedSparkError: this Spark lacks what Java functions need.
        AnabranchError: this Spark can't compile the class.
    """
    spark = SparkSession.active()
    SURFACE.insist(spark)
    of_objects, of_classes = (java.java_class(spark, f"java.lang.{name}") for name in ("Object", "Class"))
    given = java.array(spark, of_objects, arguments(spark))
    function = class_of(spark, name).getConstructors()[0].newInstance(given)
    # This uses reflection, because a call through py4j would choose another function of the same name, which is meant
    # for Scala.
    types = [of_classes.forName(f"{_SQL}.{name}") for name in ("api.java.UDF1", "types.DataType")]
    method = of_classes.forName(f"{_SQL}.functions").getMethod("udf", java.array(spark, of_classes, types))
    made = method.invoke(None, java.array(spark, of_objects, [function, java_type(spark, result)]))
    return Column(made.apply(java.array(spark, java.java_class(spark, f"{_SQL}.Column"), [java.column(column)])))


def java_type(spark: SparkSession, kind: DataType) -> Any:
    """A type in its Java form."""
    return java.java_class(spark, f"{_SQL}.types.DataType").fromJson(kind.json())


def prepare(spark: SparkSession) -> None:
    """Start to compile, in the background, the classes that most lanes need for their first query. The compilation
    takes up to a second.
    """

    def compile_them() -> None:
        with suppress(Exception):  # the error will be raised again when a class is needed
            for name in _OF_MOST_JOBS:
                class_of(spark, name)

    threading.Thread(target=compile_them, name="compiles Java functions", daemon=True).start()


def _loader(spark: SparkSession) -> Any:
    """The outermost class loader of an application's jars. The loaders of sessions and Spark tasks delegate to it."""
    found = each = java.java_class(spark, _UTILS).getContextOrSparkClassLoader()
    while each is not None:
        found = each if each.getClass().getName() == _MUTABLE else found
        each = each.getParent()
    return found


def class_of(spark: SparkSession, name: str) -> Any:
    """The Java class ``name``. If it isn't loaded yet, the file of the same name in this folder is compiled.

    Raises:
        AnabranchError: this Spark can't compile the class.
    """
    loader = _loader(spark)
    with _compiling:
        try:
            return loader.loadClass(f"{_PACKAGE}.{name}")
        except Exception as error:
            if "ClassNotFoundException" not in str(error):
                raise
        try:
            _compile(spark, loader, name)
            return loader.loadClass(f"{_PACKAGE}.{name}")
        except Exception as error:
            raise AnabranchError(
                f"Spark {spark.version} can't compile {name}.java: {java.reason(error)}",
                "anabranch runs on PySpark 4.3: see that the environment has its jars as they were installed",
            ) from error


def _compile(spark: SparkSession, loader: Any, name: str) -> None:
    compiler = java.java_class(spark, _COMPILER)()
    compiler.setParentClassLoader(loader)
    compiler.cook((_SOURCES / f"{name}.java").read_text())
    jar = scratch.folder("classes") / f"anabranch-{name}.jar"
    with zipfile.ZipFile(jar, "w") as packed:
        for each, code in compiler.getBytecodes().items():
            packed.writestr(f"{each.replace('.', '/')}.class", bytes(code))
    loader.addURL(java.java_class(spark, "java.io.File")(str(jar)).toURI().toURL())
    if cluster.is_cluster(spark.sparkContext.master or ""):
        java.context(spark).sc().addJar(str(jar))
