"""Headers as strings, and back: whatever several records have in common."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from anabranch.systems import headers
from anabranch.systems.records import RECORD_SCHEMA

TYPE = RECORD_SCHEMA.field("headers").type
ONE = [{"key": "a", "value": b"1"}, {"key": "a", "value": None}]
OTHER = [{"key": "b", "value": "ü".encode()}]


@pytest.mark.parametrize("rows", [[], [None, None], [ONE, None, OTHER, ONE, [], None, ONE], [OTHER] * 5])
def test_they_come_back_as_they_were(rows: list[Any]) -> None:
    several = pa.array(rows, TYPE)
    assert headers.unpack(headers.pack(several)).to_pylist() == rows
    assert headers.unpack(headers.pack(several).slice(1)).to_pylist() == rows[1:]
