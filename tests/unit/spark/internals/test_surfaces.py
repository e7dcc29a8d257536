"""Whether a Spark has a private surface, and what is said where it hasn't."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from anabranch.container import error_text
from anabranch.errors import UnsupportedSparkError
from anabranch.spark.internals import probes, surface
from anabranch.spark.internals.surface import PythonName, Surface


class Needed:
    """``answer``: what is missing, or what is raised. ``asked``: how often."""

    def __init__(self, answer: str | Exception = "") -> None:
        self.answer = answer
        self.asked = 0

    def missing(self, _: Any) -> str:
        self.asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def spark() -> Any:
    return SimpleNamespace(sparkContext=object())


def test_it_is_looked_for_once_a_session_and_tried_out_when_it_is_needed() -> None:
    need, tried = Needed(), list[Any]()
    mine = Surface("mine", "mining", [need], tried=lambda s: tried.append(s) or "")  # type: ignore[func-returns-value]
    first, second = spark(), spark()
    assert mine.look(first).works
    assert tried == []
    assert [mine.works(first), mine.works(first)] == [True, True]
    assert (need.asked, tried) == (1, [first])
    assert mine.works(second)
    assert (need.asked, tried) == (2, [first, second])


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("it has no class X", "it has no class X"),
        (ValueError("what\nelse"), "looking for it failed with ValueError: what"),
        (KeyError(), "looking for it failed with KeyError"),
    ],
)
def test_what_is_missing_is_told_and_nothing_is_tried_out(answer: str | Exception, said: str) -> None:
    mine = Surface("mine", "mining", [Needed(), Needed(answer)], tried=lambda _: "tried")
    assert mine.look(spark()).missing == said
    assert mine.probe(spark()).missing == said
    assert Surface("mine", "mining", tried=lambda _: "it does something else").probe(spark()).missing == (
        "it does something else"
    )


def test_a_probe_without_an_answer_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surface, "DEADLINE", 0.2)
    monkeypatch.setattr(surface, "TRIED_WITHIN", 0.2)
    answer = threading.Event()

    class Silent:
        def missing(self, _: Any) -> str:
            answer.wait(60)
            return ""

    begun = time.monotonic()
    several = Surface("mine", "mining", [Silent()]), Surface("mine", "mining", tried=Silent().missing)
    mine_only = spark()
    for mine in several:
        assert mine.probe(mine_only).missing == "it wasn't found within 0.2 s"
    slow, quick = Surface("slow", "mining", [Silent()]), Surface("quick", "mining", [Needed()])
    assert [each.works for each in surface.look(spark(), [quick, slow])] == [True, False]
    assert time.monotonic() - begun < 20
    answer.set()
    assert all(mine.probe(mine_only).works for mine in several), "it is asked for once more"


def test_a_refusal_names_the_version_that_was_found_and_those_that_are_supported() -> None:
    mine = Surface("mine", "mining", [Needed("it has no class X")])
    with pytest.raises(UnsupportedSparkError) as raised:
        mine.insist(spark())
    assert str(raised.value) == (
        "Spark 4.3.0 can't be used for mining: it has no class X\n"
        "  anabranch supports PySpark 4.3: install that version, and see anabranch doctor"
    )
    assert error_text.is_final(raised.value), "another attempt would find the same"


def test_a_session_is_refused_only_without_what_every_job_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    slower = Surface("slower", "speed", [Needed("gone")], otherwise="slowly")
    special = Surface("special", "something", [Needed("gone")])
    monkeypatch.setattr(probes, "SURFACES", (slower, special))
    probes.insist(spark())
    for always in (
        Surface("always", "all jobs", [Needed("gone")], always=True),
        Surface("always", "all jobs", tried=lambda _: "gone", always=True),
    ):
        monkeypatch.setattr(probes, "SURFACES", (slower, special, always))
        with pytest.raises(UnsupportedSparkError, match="for all jobs: gone"):
            probes.insist(spark())


@pytest.mark.parametrize(
    ("module", "name", "missing"),
    [
        ("pyspark.sql", "SparkSession.builder", ""),
        ("pyspark.sql", "", ""),
        ("pyspark.gone", "", "PySpark has no module pyspark.gone"),
        ("pyspark.sql", "SparkSession.gone", "pyspark.sql has no SparkSession.gone"),
    ],
)
def test_names_of_pyspark(module: str, name: str, missing: str) -> None:
    assert PythonName(module, name).missing(None) == missing


def test_each_surface_is_registered_with_its_feature() -> None:
    names = [each.name for each in probes.SURFACES]
    assert len({*names}) == len(names)
    assert all(each.used_for and each.needs for each in probes.SURFACES)
    assert not any(each.always and each.otherwise for each in probes.SURFACES)
