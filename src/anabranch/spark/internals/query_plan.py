"""Reads Spark's plan of a DataFrame: which steps it has, and whether a value depends on chance. Can also have Spark
plan a DataFrame in advance.
"""

from __future__ import annotations

import re
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from anabranch.spark.internals import java
from anabranch.spark.internals.surface import JavaMembers, Surface

__all__ = ["GENERATOR", "SURFACE", "count", "is_by_chance", "prepare", "probe", "steps"]

GENERATOR = "Generate "
"""How a plan prints the step in which ``explode`` and similar functions turn one row into several rows."""


def count(frame: DataFrame, word: str) -> int:
    """How many steps of a DataFrame's analyzed plan have a name that begins with ``word``.

    Raises:
        UnsupportedSparkError: anabranch can't read this Spark's plans.
    """
    SURFACE.insist(frame.sparkSession)
    return steps(_text(frame), word)


def steps(printed: str, word: str) -> int:
    """How many steps of a printed plan have a name that begins with ``word``. Each step has its own line; marks such
    as ``+-`` may precede the name.
    """
    return len(re.findall(rf"^[^\w\n]*{re.escape(word)}", printed, re.MULTILINE))


def is_by_chance(frame: DataFrame) -> bool:
    """Whether any column of a DataFrame depends on a nondeterministic expression of a ``Project``, ``Aggregate`` or
    ``Generate``, anywhere in the plan.

    Raises:
        UnsupportedSparkError: anabranch can't read this Spark's plans.
    """
    SURFACE.insist(frame.sparkSession)
    return _is_by_chance(frame)


def prepare(frame: DataFrame) -> None:
    """Have Spark plan the computation of a DataFrame in advance. Does nothing if anabranch can't read this Spark's
    plans.
    """
    if SURFACE.works(frame.sparkSession):
        java.plan(frame).executedPlan()


def _text(frame: DataFrame) -> str:
    return str(java.plan(frame).analyzed().toString())


def _is_by_chance(frame: DataFrame) -> bool:
    plan = java.plan(frame).analyzed()
    queue = [(plan, {_id(column) for column in java.items(plan.output())})]
    while queue:
        plan, wanted = queue.pop()
        children = list(java.items(plan.children()))
        if plan.nodeName() == "Union":
            places = [n for n, column in enumerate(java.items(plan.output())) if _id(column) in wanted]
            for child in children:
                ids = [_id(column) for column in java.items(child.output())]
                queue.append((child, {ids[place] for place in places}))
            continue
        if plan.nodeName() in ("Project", "Aggregate"):
            made = plan.projectList() if plan.nodeName() == "Project" else plan.aggregateExpressions()
            found = [each for each in java.items(made) if _id(each) in wanted]
            if not all(each.deterministic() for each in found):
                return True
            wanted = {_id(used) for each in found for used in java.items(each.references())}
        if plan.nodeName() == "Generate" and wanted & {_id(column) for column in java.items(plan.generatorOutput())}:
            if not plan.generator().deterministic():
                return True
            wanted |= {_id(used) for used in java.items(plan.generator().references())}
        queue += [(child, wanted) for child in children]
    return False


def _id(expression: Any) -> int:
    return int(expression.exprId().id())


def _read_wrongly(spark: SparkSession) -> str:
    """Read plans whose content is known. Returns what was read incorrectly, in words; empty if nothing was."""
    rows = spark.range(1)
    several = rows.select(F.explode(F.array("id")).alias("id"), F.rand().alias("chance"))
    counted = several.union(several).groupBy("id").agg(F.max("chance").alias("chance"))
    printed = _text(counted)
    lost = [word.strip() for word in (GENERATOR, "Aggregate", "Union") if not steps(printed, word)]
    if lost:
        return f"its plans don't name {', '.join(lost)}"
    drawn = rows.select(F.explode(F.array(F.rand())))
    if not (_is_by_chance(counted.select("chance")) and _is_by_chance(drawn)) or _is_by_chance(counted.select("id")):
        return "its plans don't say which values are random"
    return ""


SURFACE = Surface(
    "query_plan",
    "checking what operators do: random keys, steps that keep state, several rows made from one",
    [JavaMembers("org.apache.spark.sql.execution.QueryExecution", ("analyzed", "executedPlan"))],
    tried=_read_wrongly,
)
probe = SURFACE.probe
