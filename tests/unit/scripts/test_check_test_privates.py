"""The check that finds tests that reach into privates."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from scripts import check_test_privates as check

CODE = '''
WRITTEN = """
    import x
    x.y._turn()
"""
'''
HEIR = """
from anabranch.jobs import Job
class Mine(Job):
    def f(self):
        return self._turn
"""
HEIR_OF_AN_HEIR = """
import anabranch.jobs
class A(anabranch.jobs.Job): ...
class B(A):
    def f(self):
        self._turn()
"""
ITS_OWN = """
from anabranch.jobs import Job
class Mine(Job):
    _turn = 1
    def f(self):
        return self._turn
"""
NO_HEIR = """
class Mine(Own):
    def f(self):
        return self._turn
"""


def found(source: str) -> list[str]:
    return sorted(name for _, name in check.reaches(ast.parse(source)))


@pytest.mark.parametrize(
    "source",
    [
        "runner._turn()",
        "assert made.runner._turn == 1",
        "of(thing)._turn = None",
        "from anabranch.container.heartbeats import Heartbeats, _turn",
        "from tests.support.calm import _turn",
        'monkeypatch.setattr(heartbeats, "_turn", 1.0)',
        'monkeypatch.setattr("anabranch.container.heartbeats._turn", 1.0)',
        'getattr(runner, "_turn")',
        'with patch.object(runner, "_turn"): ...',
        CODE,
        HEIR,
        HEIR_OF_AN_HEIR,
    ],
)
def test_a_reach_is_found(source: str) -> None:
    assert found(source) == ["_turn"]


@pytest.mark.parametrize(
    "source",
    [
        "self._turn()",
        "cls._turn = 1",
        "_turn()",
        "module.__doc__",
        "row._asdict()",
        "os._exit(3)",
        "error.code() == KafkaError._PARTITION_EOF",
        'monkeypatch.setattr(heartbeats, "TURN", 1.0)',
        'monkeypatch.setattr(cli, "__path__", [])',
        'row["_anabranch"]',
        'frame.drop("_turn")',
        'TEXT = "import of\\nfruit._turn is (no code"',
        ITS_OWN,
        NO_HEIR,
    ],
)
def test_all_else_is_none(source: str) -> None:
    assert found(source) == []


def test_mutants_may_and_files_and_lines_are_named(tmp_path: Path) -> None:
    for name in ("tests/simulation/mutants/worse.py", "tests/simulation/autosizer/mutants.py", "tests/unit/mine.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x = 1\nx._turn()\n")
    assert check.found(tmp_path) == ["tests/unit/mine.py:2: _turn"]


@pytest.mark.long
def test_there_is_none_in_this_repository() -> None:
    assert check.found() == []
