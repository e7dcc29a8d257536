"""Checks of the page can fail: a few broken pages. ``python -m tests.dashboard.mutants`` tries all of them."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
from playwright.sync_api import Error, expect

from tests.dashboard import conftest, played
from tests.dashboard.mutants import MUTANTS, PATIENCE_MS, Mutant

FEW = ("a prediction for a measurement", "rows by their places")


@pytest.mark.parametrize("mutant", [each for each in MUTANTS if each.name in FEW], ids=lambda each: each.name)
@pytest.mark.suite(cases=1)
def test_a_broken_page_is_seen(
    mutant: Mutant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """In this process and its browser: to start others takes far longer than the check."""
    check = mutant.function
    monkeypatch.setattr(played, "MUTANT", str(mutant.build(tmp_path / "made")))
    monkeypatch.setattr(conftest, "SLOWEST", PATIENCE_MS)
    expect.set_options(timeout=PATIENCE_MS)
    try:
        with pytest.raises((AssertionError, Error)):
            check(**{name: request.getfixturevalue(name) for name in inspect.signature(check).parameters})
    finally:
        expect.set_options(timeout=SLOWEST)


SLOWEST = conftest.SLOWEST


def test_each_mutant_can_be_made() -> None:
    """What it breaks is there, once: otherwise it would be the page itself."""
    for mutant in MUTANTS:
        if mutant.file:
            text = (Path(__file__).parents[2] / "dashboard" / "src" / mutant.file).read_text(encoding="utf-8")
            assert text.count(mutant.old) == 1, mutant.name
