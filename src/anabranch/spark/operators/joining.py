"""Joins two streams in Spark: pairs rows with the same task and stage key if their event times are close enough."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from anabranch.errors import GraphError
from anabranch.model.graph import Node
from anabranch.spark.operators.labels import label
from anabranch.spark.values import codec, meta_column

__all__ = ["GRACE", "TASK", "followed", "joined"]

TASK = "_task"
"""The column that contains the number of a row's task while rows are joined or aggregated. A job can't have a column
with this name. The name must not change, because the state that lanes have stored contains it.
"""

GRACE = 1
"""How many ms the watermark of Spark's join is behind the lane's watermark. (Spark's join treats a row as late even if
the row's time is equal to the watermark.)
"""

_WATERMARKED = "spark.watermarkDelayMs"


def followed(frame: DataFrame, time: str) -> DataFrame:
    """The right side of a join, with its column ``time`` marked as event time. The left side must already have the
    watermark.

    Spark drops old rows of one side only if the other side has a column that is marked as event time. This function
    marks the column without ``withWatermark``, which would require a second clock.
    """
    return frame.withMetadata(time, {_WATERMARKED: GRACE})


def joined(node: Node, left: DataFrame, right: DataFrame, keys: Sequence[str], times: Sequence[str]) -> DataFrame:
    """The result of the ``join`` operator: the pairs of rows that have the same task and stage key, and whose event
    times differ by at most ``within``. A left join also keeps the rows of the left side that have no partner.

    The result has the columns of the left side, and the columns of the right side except for the stage key. The
    ``prefix`` is added to the names of the right side's columns. The result also has the column :data:`TASK`, but no
    hidden column.

    Args:
        keys: the columns of the stage key, which both sides have.
        times: the event-time column of each side.

    Raises:
        GraphError: the keys of the two sides have different types, or both sides have a column of the same name that
            isn't part of the key. (The names are compared after the ``prefix`` has been added on the right side.)
    """
    _check_keys(node, left, right, keys)
    mine, its = _names(left), _names(right)
    named = _named(node, mine, [name for name in its if name not in keys])
    one, other = _numbered(left, mine, "_left"), _numbered(right, its, "_right")
    at, of_other = F.col(f"_left{mine.index(times[0])}"), F.col(f"_right{its.index(times[1])}")
    within = F.expr(f"interval {node.args['within']} milliseconds")
    condition = [F.col("_left") == F.col("_right"), of_other >= at - within, of_other <= at + within]
    condition += [F.col(f"_left{mine.index(key)}") == F.col(f"_right{its.index(key)}") for key in keys]
    pairs = one.join(other, _all(condition), node.args["how"])
    return pairs.select(
        *[F.col(f"_left{number}").alias(name) for number, name in enumerate(mine)],
        *[F.col(f"_right{its.index(name)}").alias(result) for name, result in named.items()],
        F.col("_left").alias(TASK),
    )


def _names(frame: DataFrame) -> list[str]:
    return [name for name in frame.columns if name != meta_column.NAME]


def _named(node: Node, mine: Sequence[str], its: Sequence[str]) -> dict[str, str]:
    """The names that the right side's columns get in the result."""
    named = {name: node.args.get("prefix", "") + name for name in its}
    known = {name.lower() for name in mine}
    taken = next((name for name in named.values() if name.lower() in known), None)
    if taken is not None:
        raise GraphError(
            f"{label(node)} has the column {taken!r} on both sides",
            'give those of the right side a prefix: join(..., prefix="other_")',
        )
    return named


def _numbered(frame: DataFrame, names: Sequence[str], prefix: str) -> DataFrame:
    columns = [F.col(codec.quoted(name)).alias(f"{prefix}{number}") for number, name in enumerate(names)]
    return frame.select(meta_column.field("task").alias(prefix), *columns)


def _all(conditions: Sequence[Column]) -> Column:
    found = conditions[0]
    for each in conditions[1:]:
        found = found & each
    return found


def _check_keys(node: Node, left: DataFrame, right: DataFrame, keys: Sequence[str]) -> None:
    for key in keys:
        one, other = (frame.schema[key].dataType.simpleString() for frame in (left, right))
        if one != other:
            raise GraphError(
                f"{label(node)}: the key column {key!r} is {one} on the left, and {other} on the right",
                "declare it with one type: keys of other types are other bytes",
            )
