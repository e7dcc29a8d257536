"""Calls ``mapInArrow`` on DataFrames whose columns may have any names."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

__all__ = ["mapped"]

Batches = Iterator[pa.RecordBatch]


def mapped(frame: DataFrame, function: Callable[[Batches], Batches], schema: StructType) -> DataFrame:
    """The DataFrame that results from applying ``function`` to the Arrow batches of ``frame``.

    PySpark would mistake a column name with a dot for the name of a nested field. If any name contains a dot or a
    backtick, all columns are sent to workers under other names, and the workers restore the names.
    """
    names = frame.columns
    if not any("." in name or "`" in name for name in names):
        return frame.mapInArrow(function, schema)

    def run(batches: Batches) -> Batches:
        yield from function(batch.rename_columns(names) for batch in batches)

    return frame.toDF(*[f"_anabranch_{number}" for number in range(len(names))]).mapInArrow(run, schema)
