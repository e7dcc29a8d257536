"""Finds out whether a session's Java process has ended, and whether it is a child of this process. Can also end a
child.
"""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress

from pyspark.sql import SparkSession

from anabranch.spark.internals import java
from anabranch.spark.internals.surface import PythonName, Surface

__all__ = ["SURFACE", "end", "is_child", "is_gone", "kill", "pid", "probe"]

_PARENT = os.getppid()


class _Started:
    """A part of the surface: the attribute of PySpark's gateway that holds the process started by ``launch_gateway``.
    (With spark-submit, PySpark doesn't start a Java process, and nothing is missing.)
    """

    def missing(self, spark: SparkSession) -> str:
        kept = "PYSPARK_GATEWAY_PORT" in os.environ or _process(spark) is not None
        return "" if kept else "PySpark doesn't keep the Java process that it starts"


SURFACE = Surface(
    "java_process",
    "noticing at once that Spark's Java process has ended, and replacing it",
    [PythonName("pyspark.java_gateway", "launch_gateway"), _Started()],
    otherwise="a container notices it when its next call fails, and ends",
)
probe = SURFACE.probe


def is_child(spark: SparkSession) -> bool:
    """Whether this process has started the Java process. (With spark-submit, the Java process starts this process.)"""
    return _process(spark) is not None


def pid(spark: SparkSession) -> int:
    """The process id of the Java process that this process has started; 0 if there is none."""
    process = _process(spark)
    return 0 if process is None else process.pid


def kill(spark: SparkSession) -> None:
    """Kill the Java process that this process has started, whatever it is doing."""
    process = _process(spark)
    if process is not None:
        process.kill()
        process.wait()


def end(spark: SparkSession) -> None:
    """Shut down the Java process that this process has started, in an orderly way, and wait until the Java process has
    ended. (The Java process shuts down when its input is closed.)
    """
    process = _process(spark)
    if process is not None:
        assert process.stdin is not None
        process.stdin.close()
        process.wait()


def is_gone(spark: SparkSession, within: float = 0.0) -> bool:
    """Return whether a session's Java process has ended. Wait up to ``within`` seconds for its end, except with
    spark-submit.
    """
    process = _process(spark)
    if process is None:
        return os.getppid() != _PARENT  # with spark-submit, the Java process is the parent of this process
    with suppress(subprocess.TimeoutExpired):
        process.wait(within)
    return process.poll() is not None


def _process(spark: SparkSession) -> subprocess.Popen[bytes] | None:
    process: subprocess.Popen[bytes] | None = getattr(java.gateway(spark), "proc", None)
    return process
