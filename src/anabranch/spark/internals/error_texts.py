"""Checks whether Spark's error texts have the form that anabranch expects when it searches for a failure's cause.

:mod:`anabranch.spark.root_cause` defines the patterns for the search, and :mod:`anabranch.container.error_text`
defines the kinds of errors.
"""

from __future__ import annotations

import re

from pyspark.sql import SparkSession

from anabranch.spark.internals import java
from anabranch.spark.internals.surface import JavaMembers, Surface

__all__ = ["SURFACE", "probe"]

_HELPER = "org.apache.spark.SparkThrowableHelper"
_CONDITION = re.compile(r"^\[DIVIDE_BY_ZERO\] .+ SQLSTATE: \w+\s*$", re.DOTALL)


def _others(spark: SparkSession) -> str:
    arguments = java.java_class(spark, "java.util.HashMap")()
    arguments.put("config", "x")
    text = str(java.singleton(spark, _HELPER).getMessage("DIVIDE_BY_ZERO", arguments))
    return "" if _CONDITION.match(text) else f"its errors read {text[:60]!r}"


SURFACE = Surface(
    "error_texts",
    "saying in anabranch's words why a lane failed",
    [JavaMembers(f"{_HELPER}$", ("getMessage",))],
    tried=_others,
    otherwise="errors are shown in Spark's words, without advice",
)
probe = SURFACE.probe
