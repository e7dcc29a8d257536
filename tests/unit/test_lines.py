"""Lines of Python are noted only while a user's function is asked."""

from __future__ import annotations

from pyspark.errors import utils

from anabranch.spark import lines


def test_lines_are_noted_until_the_last_that_asks_has_ended() -> None:
    with lines.noted():
        assert utils.is_debugging_enabled()
        with lines.noted():
            assert utils.is_debugging_enabled()
        assert utils.is_debugging_enabled()
    assert not utils.is_debugging_enabled()
