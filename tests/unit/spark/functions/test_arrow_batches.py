"""Rows that do not fit into one batch are in several."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from anabranch.spark.functions import arrow_batches

SCHEMA = pa.schema([("t", pa.string())])
SEVERAL = pa.Table.from_batches([pa.RecordBatch.from_pylist([{"t": t} for t in rows], SCHEMA) for rows in ("ab", "c")])


class Huge:
    """A table with more than 2 GB in a column: after it is combined, it still has several chunks."""

    def combine_chunks(self) -> pa.Table:
        return SEVERAL


class HugeInside:
    """A table with more than 2 GB in arrays, maps or structs: Arrow doesn't combine it."""

    def combine_chunks(self) -> pa.Table:
        raise pa.ArrowInvalid("offset overflow while concatenating arrays")

    def to_batches(self) -> list[pa.RecordBatch]:
        return SEVERAL.to_batches()  # type: ignore[no-any-return]


def test_rows_of_several_batches_become_one() -> None:
    (combined,) = arrow_batches.combined(SEVERAL)
    assert combined.to_pylist() == [{"t": each} for each in "abc"]
    (none,) = arrow_batches.combined(SCHEMA.empty_table())
    assert (none.num_rows, none.schema) == (0, SCHEMA)


@pytest.mark.parametrize("huge", [Huge(), HugeInside()])
def test_rows_that_no_batch_can_hold_stay_in_several(huge: Any) -> None:
    assert arrow_batches.combined(huge) == SEVERAL.to_batches()


def test_batches_are_cut_to_their_limit_or_to_one_row() -> None:
    texts = ["a" * 10, "b", "c", "d" * 500, "e", "f" * 40]
    cut = [*arrow_batches.cut(pa.table({"t": texts}), 100)]
    assert [text for each in cut for text in each.column("t").to_pylist()] == texts
    assert all(each.nbytes <= 100 or each.num_rows == 1 for each in cut)
    assert len(cut) < len(texts)


def test_rows_are_packed_and_unpacked() -> None:
    assert arrow_batches.unpacked(arrow_batches.packed(SEVERAL)) == SEVERAL
    for batch in SEVERAL.to_batches():
        assert arrow_batches.unpacked(arrow_batches.packed(batch)).to_batches() == [batch]
