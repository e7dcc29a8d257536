"""The check of sizes: what it counts, and that an exception that nothing needs must go."""

from __future__ import annotations

import pytest
from scripts import check_sizes

FILE = "src/anabranch/lanes.py"


def of(kind: str, source: str) -> dict[str, int]:
    return {size.name: size.size for size in check_sizes.sizes(source, FILE) if size.kind == kind}


def test_the_docstring_of_a_function_does_not_count() -> None:
    source = 'def a():\n    """One.\n\n    Two.\n    """\n    b = 1\n    return b\n\n\nasync def c(\n    d,\n): ...\n'
    assert of("function", source) == {"a": 3, "c": 3}


def test_attributes_are_declared_fields_and_what_methods_set_on_self() -> None:
    source = """
class Lane:
    LIMIT = 3
    id: str
    seat: str = ""

    def __init__(self, epoch):
        self.epoch = self._former = epoch
        self.id, other.thing = "a", 1
        self.counts[epoch] = 1

    def move(self):
        for self.seat in "abc":
            self.moved: bool = True

    @property
    def state(self): ...
"""
    assert of("attributes", source) == {"Lane": 5}
    assert of("class", source) == {"Lane": 16}


@pytest.mark.parametrize(("kind", "most"), [("module", 400), ("class", 400), ("function", 60), ("attributes", 15)])
def test_what_is_larger_must_be_split_or_be_an_exception_as_long_as_it_is(kind: str, most: int) -> None:
    small = check_sizes.Size(kind, FILE, "Lane", 7, most)
    large = check_sizes.Size(kind, FILE, "Lane", 7, most + 1)
    assert check_sizes.problems([small], {}) == []
    (problem,) = check_sizes.problems([large], {})
    assert problem.startswith(f"{FILE}:7: the ")
    assert f"{most + 1} " in problem
    assert check_sizes.problems([large], {large.key: "a reason"}) == []
    (stale,) = check_sizes.problems([small], {small.key: "a reason"})
    assert "remove the exception" in stale


def test_the_code_is_within_its_sizes_and_each_exception_has_a_reason(capsys: pytest.CaptureFixture[str]) -> None:
    assert check_sizes.main() == 0, capsys.readouterr().out
    assert all(check_sizes.EXCEPTIONS.values())
