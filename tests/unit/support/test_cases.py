"""Of a test with many cases, the suite runs some, from the first to the last."""

from __future__ import annotations

import pytest

from tests.support.cases import THOROUGH, examples, left_out


@pytest.mark.parametrize(
    ("count", "kept", "out"),
    [
        (1, 1, []),
        (1, 3, []),
        (2, 1, [1]),
        (3, 2, [1]),
        (5, 3, [1, 3]),
        (4, 4, []),
        (10, 4, [1, 2, 4, 5, 7, 8]),
    ],
)
def test_the_cases_that_are_kept_are_spread_evenly(count: int, kept: int, out: list[int]) -> None:
    assert left_out(range(count), kept) == out


@pytest.mark.parametrize(("count", "few"), [(20, 20), (100, 50), (300, 75), (2000, 500)])
def test_a_property_has_fewer_examples_in_the_suite(count: int, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(THOROUGH, raising=False)
    assert examples(count).max_examples == few
    monkeypatch.setenv(THOROUGH, "yes")
    assert examples(count).max_examples == count
