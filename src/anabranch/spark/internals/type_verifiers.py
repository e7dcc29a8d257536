"""Checks whether a Python value fits one of Spark's types, with PySpark's own check."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import types
from pyspark.sql.types import DataType

from anabranch.errors import UnsupportedSparkError
from anabranch.spark.internals.surface import SUPPORTED, PythonName, Surface

__all__ = ["SURFACE", "of_type", "probe"]

_MAKE = "_make_type_verifier"

SURFACE = Surface("type_verifiers", "the state of process", [PythonName("pyspark.sql.types", _MAKE)])
probe = SURFACE.probe


def of_type(kind: DataType) -> Callable[[Any], None]:
    """A function that raises a PySpark exception for a value that is neither null nor of the given type.

    Raises:
        UnsupportedSparkError: this Spark has no such check.
    """
    make = getattr(types, _MAKE, None)
    if make is None:
        raise UnsupportedSparkError("the PySpark of this worker can't verify types", f"install {SUPPORTED}")
    verifier: Callable[[Any], None] = make(kind)
    return verifier
