"""``StrictJson.java`` as a function on columns: compiled once a JVM by the compiler that Spark brings, Janino."""

from __future__ import annotations

import tempfile
import threading
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyspark.sql import Column, SparkSession
from pyspark.sql.types import DataType, StringType, StructType

from anabranch.errors import AnabranchError
from anabranch.spark import cluster

__all__ = ["prepare", "reason", "row"]

_CLASS = "anabranch.StrictJson"
_MUTABLE = "org.apache.spark.util.MutableURLClassLoader"
_SOURCE = Path(__file__).with_name("StrictJson.java")
_compiling = threading.Lock()


def row(
    value: Column,
    declared: StructType,
    wanted: Iterable[str],
    read_as: Mapping[str, str],
    result: StructType,
    array: bool = False,
) -> Column:
    """JSON bytes as a struct of the columns ``wanted``, null where they can't be read as ``declared``.

    Args:
        read_as: how columns are read that aren't read by their type alone; docs/values.md.
        result: the type of the struct.
        array: the columns are the elements of an array, and the bytes were written by us: a key.
    """
    return _applied(value, declared, wanted, read_as, array, result)


def reason(value: Column, declared: StructType, read_as: Mapping[str, str], array: bool = False) -> Column:
    """Why JSON bytes can't be read, in words; null where they can."""
    return _applied(value, declared, declared.names, read_as, array, None)


def _applied(
    value: Column,
    declared: StructType,
    wanted: Iterable[str],
    read_as: Mapping[str, str],
    array: bool,
    result: StructType | None,
) -> Column:
    spark = SparkSession.active()
    jvm: Any = spark.sparkContext._jvm
    names, ways = jvm.java.util.ArrayList(), jvm.java.util.HashMap()
    for name in wanted:
        names.add(name)
    for name, way in read_as.items():
        ways.put(name, way)
    given = _array(spark, jvm.java.lang.Object, [_java(jvm, declared), names, ways, array, result is None])
    reader = _class(spark).getConstructors()[0].newInstance(given)
    # By reflection: py4j would take another function of this name, for Scala.
    types = [
        jvm.java.lang.Class.forName(f"org.apache.spark.sql.{name}") for name in ("api.java.UDF1", "types.DataType")
    ]
    functions = jvm.java.lang.Class.forName("org.apache.spark.sql.functions")
    method = functions.getMethod("udf", _array(spark, jvm.java.lang.Class, types))
    kind = _java(jvm, result or StringType())
    function = method.invoke(None, _array(spark, jvm.java.lang.Object, [reader, kind]))
    return Column(function.apply(_array(spark, jvm.org.apache.spark.sql.Column, [value._jc])))


def _array(spark: SparkSession, kind: Any, values: Sequence[Any]) -> Any:
    gateway: Any = spark.sparkContext._gateway
    made = gateway.new_array(kind, len(values))
    for place, value in enumerate(values):
        made[place] = value
    return made


def _java(jvm: Any, kind: DataType) -> Any:
    return jvm.org.apache.spark.sql.types.DataType.fromJson(kind.json())


def prepare(spark: SparkSession) -> None:
    """Compile it meanwhile: it takes a fifth of a second, and a lane's first query needs it."""

    def compile_it() -> None:
        with suppress(Exception):  # whoever needs it is told
            _class(spark)

    threading.Thread(target=compile_it, name="compiles what reads JSON", daemon=True).start()


def _loader(jvm: Any) -> Any:
    """What loads an application's jars: the outermost, for those of sessions and of tasks begin with it."""
    found = each = jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader()
    while each is not None:
        found = each if each.getClass().getName() == _MUTABLE else found
        each = each.getParent()
    return found


def _class(spark: SparkSession) -> Any:
    """The class, which is compiled if this JVM hasn't got it. AnabranchError if this Spark can't."""
    jvm: Any = spark.sparkContext._jvm
    loader = _loader(jvm)
    with _compiling:
        try:
            return loader.loadClass(_CLASS)
        except Exception as error:
            if "ClassNotFoundException" not in str(error):
                raise
        try:
            compiler = jvm.org.codehaus.janino.SimpleCompiler()
            compiler.setParentClassLoader(loader)
            compiler.cook(_SOURCE.read_text())
            codes = {name: bytes(code) for name, code in compiler.getBytecodes().items()}
            folder = Path(tempfile.mkdtemp(prefix="anabranch-classes-"))
            jar = folder / "anabranch-json.jar"
            with zipfile.ZipFile(jar, "w") as packed:
                for name, code in codes.items():
                    packed.writestr(f"{name.replace('.', '/')}.class", code)
            loader.addURL(jvm.java.io.File(str(jar)).toURI().toURL())
            if cluster.is_cluster(spark.sparkContext.master or ""):
                spark.sparkContext._jsc.sc().addJar(str(jar))
            return loader.loadClass(_CLASS)
        except Exception as error:
            raise AnabranchError(
                f"Spark {spark.version} can't compile what reads JSON: {str(error).strip().splitlines()[0]}",
                "anabranch runs on PySpark 4.3: see that the environment has its jars as they were installed",
            ) from error
