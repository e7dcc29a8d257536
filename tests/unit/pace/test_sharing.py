"""How sources of one lane share what a batch may have."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.pace import sharing
from anabranch.pace.sharing import SourceShare

FULL = SourceShare(100, 100)


@pytest.mark.parametrize(
    ("limit", "taken", "expected"),
    [
        (100, {"a": FULL}, {"a": 100}),
        (100, {"a": SourceShare(0, 100)}, {"a": 100}),
        (100, {"a": FULL, "b": FULL}, {"a": 50, "b": 50}),
        (1000, {"a": FULL, "b": SourceShare(0, 100)}, {"a": 938, "b": 62}),
        (1000, {"a": FULL, "b": SourceShare(100, 500)}, {"a": 800, "b": 200}),
        (1000, {"a": SourceShare(1, 500), "b": SourceShare(0, 500)}, {"a": 500, "b": 500}),
        (3, {"a": FULL, "b": FULL, "c": SourceShare(0, 5)}, {"a": 1, "b": 1, "c": 1}),
        (1, {"a": FULL, "b": FULL}, {"a": 1, "b": 1}),
        (0, {}, {}),
    ],
)
def test_who_had_more_gets_what_others_do_not_need(
    limit: int, taken: dict[str, SourceShare], expected: dict[str, int]
) -> None:
    assert sharing.shares(limit, 10_000, taken) == expected


TAKEN = st.dictionaries(
    st.sampled_from("abcdef"), st.builds(SourceShare, st.integers(0, 10**6), st.integers(1, 10**6), st.integers(1, 50))
)


@given(st.integers(1, 10**6), st.integers(1, 10**6), TAKEN)
def test_all_shares_together_are_the_limit_and_each_has_one(
    limit: int, most: int, taken: dict[str, SourceShare]
) -> None:
    found = sharing.shares(limit, most, taken)
    assert found.keys() == taken.keys()
    assert all(1 <= rows <= most for rows in found.values())
    assert sum(found.values()) <= max(limit, len(taken))
    if taken and all(rows < most for rows in found.values()):
        assert sum(found.values()) == max(limit, len(taken))


@given(st.integers(8, 10**6), TAKEN)
def test_a_small_source_does_not_starve_beside_a_large_one(limit: int, taken: dict[str, SourceShare]) -> None:
    found = sharing.shares(limit, 10**6, {**taken, "small": SourceShare(0, 1)})
    assert found["small"] >= max(1, limit // (8 * (len(taken) + 1)))


@pytest.mark.parametrize(
    ("taken", "bound"),
    [
        ({}, False),
        ({"a": SourceShare(0, 1)}, False),
        ({"a": SourceShare(1, 1)}, True),
        ({"a": SourceShare(98, 100, 2)}, True),
        ({"a": SourceShare(97, 100, 2)}, False),
        ({"a": SourceShare(3, 100, 2), "b": FULL}, True),
        ({"a": SourceShare(100, 1000), "b": SourceShare(0, 1000)}, False),
    ],
)
def test_a_batch_is_bound_by_its_limit_if_a_source_had_more(taken: dict[str, SourceShare], bound: bool) -> None:
    assert sharing.is_bound(taken) is bound
