"""Finds rows that arrive too late for their windows. A row is judged by the same watermark by which Spark would
drop it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta

import pyarrow.compute as pc
from pyspark import SparkContext, TaskContext
from pyspark.sql import Column
from pyspark.sql import functions as F

from anabranch.errors import OperatorError, StateError
from anabranch.event_time.windows import Session, Sliding, Tumbling, Window
from anabranch.model.graph import Node
from anabranch.spark.functions.wrap import Batches, Rejecting, origin_of, partition_of
from anabranch.spark.operators.labels import label
from anabranch.spark.values import meta_column

__all__ = ["CURE", "label_of", "last_end", "let_know", "sifting"]

CURE = 'declare a longer watermark where the stream is read, or say window(..., on_late="dead-letter") or "drop"'
_BEFORE = "anabranch.late-before"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def label_of(node: Node) -> str:
    """The label under which an operator's late rows are rejected. (All other rows that the operator rejects have the
    operator's usual label.)
    """
    return f"{label(node)}, late"


def last_end(window: Window, time: Column) -> Column:
    """The end of a row's last window, in Unix microseconds."""
    at = F.unix_micros(time)
    match window:
        case Tumbling(size):
            return at - F.pmod(at, F.lit(size * 1000)) + size * 1000
        case Sliding(size, slide):
            return at - F.pmod(at, F.lit(slide * 1000)) + size * 1000
        case Session(gap):
            return at + gap * 1000


def let_know(context: SparkContext, watermark: int) -> None:
    """Set the watermark (in Unix ms) up to which windows are closed, for the Spark tasks that this thread will start.

    By Spark's rule, ``watermark`` must be the watermark of the previous batch.
    """
    context.setLocalProperty(_BEFORE, str(watermark))


def sifting(
    column: str, node: Node, reject: Rejecting | None, inputs: Mapping[int, str]
) -> Callable[[Batches], Batches]:
    """A function for ``mapInArrow`` that rejects late rows. If ``reject`` is None, the first late row fails the lane.

    Args:
        column: the column with the result of :func:`last_end`. The function drops this column.
        inputs: the streams by source number, for error messages.
    """
    called = label_of(node)

    def run(batches: Batches) -> Batches:
        before = _before()
        rejects = None if reject is None else reject(called)
        for batch in batches:
            late = pc.less_equal(batch.column(column), before * 1000)
            rows = batch.drop_columns([column])
            for index in pc.indices_nonzero(late).to_pylist():
                origin = origin_of(rows.column(meta_column.NAME), index)
                end = int(batch.column(column)[index].as_py())
                said = f"late: its last window ended {_when(end)}, and the watermark was {_when(before * 1000)}"
                if rejects is None:
                    where = f"offset {origin['offset']} of {partition_of(origin, inputs)}"
                    raise OperatorError(f"{label(node)}: {where} is {said}", CURE)
                rejects.add(origin, said, rows.slice(index, 1).drop_columns([meta_column.NAME]))
            yield rows.filter(pc.invert(late))
        if rejects is not None:
            rejects.close()

    return run


def _before() -> int:
    context = TaskContext.get()
    told = None if context is None else context.getLocalProperty(_BEFORE)
    if told is None:
        raise StateError("a Spark task doesn't know its batch's watermark", "this is a bug in anabranch")
    return int(told)


def _when(unix_us: int) -> str:
    return f"{_EPOCH + timedelta(microseconds=unix_us):%Y-%m-%dT%H:%M:%S.%fZ}"
