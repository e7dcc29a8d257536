"""What is told of errors of Java."""

from __future__ import annotations

import pytest

from anabranch.spark.internals import java


@pytest.mark.parametrize(
    ("error", "told"),
    [(ValueError("no class\nat a"), "no class"), (ValueError(" \n"), "ValueError"), (KeyError(), "KeyError")],
)
def test_an_error_is_told_in_a_line_or_by_its_name(error: Exception, told: str) -> None:
    assert java.reason(error) == told
