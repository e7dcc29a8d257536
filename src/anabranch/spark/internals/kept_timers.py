"""Keeps a timer whose own ``on_timer`` call registers it again. Spark itself would delete the timer after the call."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

from anabranch.spark.internals.surface import PythonName, Surface

__all__ = ["SURFACE", "keep", "probe"]

_CLIENT, _DELETE = "_statefulProcessorApiClient", "delete_timer"


def keep(handle: StatefulProcessorHandle) -> None:
    """Suppress the next deletion of a timer. Must be called at the very end of an ``on_timer`` call. The next deletion
    is then the one that Spark itself makes after the call. Does nothing if this PySpark deletes timers in another way.
    """
    client: Any = getattr(handle, _CLIENT, None)
    if hasattr(client, _DELETE):
        setattr(client, _DELETE, lambda _: delattr(client, _DELETE))


def _missing(_: SparkSession) -> str:
    """What is missing from PySpark's handles, in words; empty if nothing is missing."""
    client: Any = object()
    its = getattr(StatefulProcessorHandle(client), _CLIENT, None)
    return "" if its is client else f"PySpark's handles have no {_CLIENT}"


SURFACE = Surface(
    "kept_timers",
    "timers that on_timer registers again for their own time",
    [PythonName("pyspark.sql.streaming.stateful_processor_api_client", f"StatefulProcessorApiClient.{_DELETE}")],
    tried=_missing,
    otherwise="such timers are lost",
)
probe = SURFACE.probe
