"""What soak runs is described, and so is what its kills leave."""

from __future__ import annotations

import re

from tests.soak import __main__, leftovers
from tests.support.paths import ROOT

TESTS = ROOT / "tests"
TEXT = (TESTS.parent / "docs" / "contributing" / "testing.md").read_text()


def section(title: str) -> str:
    return TEXT[TEXT.index(f"\n## {title}\n") :].split("\n## ", 2)[1]


def test_each_scenario_has_its_line() -> None:
    rows = re.findall(r"^\| (`.*?`) \|", section("Soak"), re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`(.*?)`", row)} == set(__main__.ALL)


def test_each_kind_of_leftover_has_its_line_and_a_test() -> None:
    rows = re.findall(r"^\| (\w+: .*?) \| (.*?) \| `(.*?)` \|$", section("What a kill leaves"), re.MULTILINE)
    assert {kind: what for kind, what, _ in rows} == leftovers.KINDS
    assert not [test for _, _, test in rows if not (TESTS / test).exists()]
