"""Stops a session without PySpark's delay of up to a second: PySpark waits for its accumulator server, which checks
only every second whether it should end.
"""

from __future__ import annotations

import threading
from typing import Any

from pyspark.sql import SparkSession

from anabranch.spark.internals.surface import Surface

__all__ = ["SERVER", "SURFACE", "probe", "stop"]

SERVER = "_accumulatorServer"
"""The attribute of a SparkContext that refers to the accumulator server."""


class _Server:
    def missing(self, spark: SparkSession) -> str:
        server = getattr(spark.sparkContext, SERVER, None)
        return "" if hasattr(server, "shutdown") else f"SparkContext has no {SERVER} that can be shut down"


SURFACE = Surface(
    "context_stop",
    "stopping Spark at once",
    [_Server()],
    otherwise="it takes up to a second longer",
)
probe = SURFACE.probe


def stop(spark: SparkSession) -> None:
    """Stop Spark."""
    context: Any = spark.sparkContext
    server: Any = getattr(context, SERVER, None)
    if SURFACE.look(spark).works and server is not None:
        setattr(context, SERVER, None)
        threading.Thread(target=server.shutdown, name="ends the server for accumulators", daemon=True).start()
    spark.stop()
