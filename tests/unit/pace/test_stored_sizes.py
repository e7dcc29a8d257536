"""What is remembered of the size of batches."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.pace import stored_sizes
from anabranch.pace.stored_sizes import StoredSize

KNOWN = {1: StoredSize(4000, 2), 16: StoredSize(60_000, 2)}


@pytest.mark.parametrize(
    ("known", "factor", "partitions", "quick", "expected"),
    [
        ({}, 1, 2, True, 0),
        (KNOWN, 1, 2, True, 4000),
        (KNOWN, 1, 2, False, 1000),
        (KNOWN, 16, 2, False, 15_000),
        (KNOWN, 16, 1, False, 7500),
        (KNOWN, 16, 8, False, 15_000),
        (KNOWN, 2, 2, False, 8000),
        (KNOWN, 2, 2, True, 4000),
        (KNOWN, 8, 2, False, 7500),
        (KNOWN, 64, 2, False, 120_000),
        ({4: StoredSize(4000, 2)}, 6, 2, False, 6000),
        ({1: StoredSize(2, 2)}, 1, 1, False, 1),
    ],
)
def test_a_lane_begins_with_what_lanes_like_it_had(
    known: dict[int, StoredSize], factor: int, partitions: int, quick: bool, expected: int
) -> None:
    assert stored_sizes.first(known, factor, partitions, quick=quick) == expected


@given(st.dictionaries(st.integers(1, 1024), st.builds(StoredSize, st.integers(1, 10**7), st.integers(1, 10**4))))
def test_what_is_stored_is_read(known: dict[int, StoredSize]) -> None:
    assert stored_sizes.from_builtins(stored_sizes.to_builtins(known)) == known


@pytest.mark.parametrize(
    "told",
    [
        None,
        [],
        "{}",
        {"x": {"rows": 1, "partitions": 1}},
        {"0": {"rows": 1, "partitions": 1}},
        {"1": {}},
        {"1": {"rows": 0, "partitions": 1}},
        {"1": {"rows": 1.5, "partitions": 1}},
        {"1": {"rows": True, "partitions": 1}},
        {"1": 7},
    ],
)
def test_what_is_something_else_is_refused(told: object) -> None:
    with pytest.raises(ValueError, match=r"no size|not an object"):
        stored_sizes.from_builtins(told)
