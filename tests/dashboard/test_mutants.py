"""Checks of the page can fail: a few broken pages. ``python -m tests.dashboard.mutants`` tries all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.dashboard.mutants import MUTANTS, Mutant, seen

FEW = ("a prediction for a measurement", "rows by their places")


@pytest.mark.parametrize("mutant", [each for each in MUTANTS if each.name in FEW], ids=lambda each: each.name)
def test_a_broken_page_is_seen(mutant: Mutant, tmp_path: Path) -> None:
    assert seen(mutant, tmp_path) == ""


def test_each_mutant_can_be_made() -> None:
    """What it breaks is there, once: otherwise it would be the page itself."""
    for mutant in MUTANTS:
        if mutant.file:
            text = (Path(__file__).parents[2] / "dashboard" / "src" / mutant.file).read_text(encoding="utf-8")
            assert text.count(mutant.old) == 1, mutant.name
