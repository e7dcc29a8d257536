"""Lines of Python are noted only while a user's function is asked."""

from __future__ import annotations

from anabranch.config import Settings
from anabranch.spark.internals import debug_lines
from anabranch.spark.session import session
from tests.support import spark_java
from tests.support.surfaces import lacking


def test_lines_are_noted_until_the_last_that_asks_has_ended() -> None:
    with debug_lines.noted():
        assert spark_java.notes_lines()
        with debug_lines.noted():
            assert spark_java.notes_lines()
        assert spark_java.notes_lines()
    assert not spark_java.notes_lines()


def test_a_pyspark_that_can_not_be_asked_notes_all_lines() -> None:
    name = "spark.python.sql.dataFrameDebugging.enabled"
    assert session.conf(Settings())[name] == "false"
    with lacking(debug_lines.SURFACE):
        assert name not in session.conf(Settings())
