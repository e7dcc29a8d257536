"""Rows that must not reach the next stage are rejected, whatever their values are."""

from __future__ import annotations

import pyarrow as pa
import pytest

from anabranch.errors import OperatorError
from anabranch.spark.query.sink import Refusal

FIELDS = {
    "key": pa.binary(),
    "value": pa.binary(),
    "source": pa.int32(),
    "partition": pa.int32(),
    "origin": pa.int64(),
}
ROWS = pa.schema(FIELDS.items())


@pytest.mark.parametrize("value", [b'{"n": 1}', b"text", None, b"[" * 2000], ids=["row", "text", "null", "nested"])
def test_a_row_without_a_key_is_named_whatever_its_value_is(value: bytes | None) -> None:
    columns = [pa.array(each, kind) for each, kind in zip([[None], [value], [0], [3], [7]], ROWS.types, strict=True)]
    refusal = Refusal("partition_by('k')", keyless=None, inputs={0: "flights"})
    with pytest.raises(OperatorError, match=r"the key is null in a row .* of partition 3 at offset 7 of flights"):
        refusal.taken_out(pa.record_batch(columns, schema=ROWS), {})
