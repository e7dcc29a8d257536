"""Rows that do not fit into one batch are not lost."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from anabranch.spark.functions import arrow_batches
from anabranch.spark.functions.results import ResultError

SCHEMA = pa.schema([("t", pa.string())])


class Huge:
    """A table with more than 2 GB in a column: after it is combined, it still has several chunks."""

    num_rows = 3

    def combine_chunks(self) -> pa.Table:
        several = [pa.RecordBatch.from_pylist([{"t": each} for each in rows], schema=SCHEMA) for rows in ("ab", "c")]
        return pa.Table.from_batches(several)


def test_rows_of_several_batches_become_one() -> None:
    assert arrow_batches.combined(Huge().combine_chunks()).to_pylist() == [{"t": each} for each in "abc"]
    none = arrow_batches.combined(SCHEMA.empty_table())
    assert (none.num_rows, none.schema) == (0, SCHEMA)


def test_rows_that_no_batch_can_hold_are_refused_rather_than_lost() -> None:
    huge: Any = Huge()
    with pytest.raises(ResultError, match="3 results have more than 2 GB in one column: return fewer rows at a time"):
        arrow_batches.combined(huge)


def test_rows_are_packed_and_unpacked() -> None:
    (batch, _) = Huge().combine_chunks().to_batches()
    assert arrow_batches.unpacked(arrow_batches.packed(batch)) == batch
