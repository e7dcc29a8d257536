"""What soak runs is described."""

from __future__ import annotations

import re
from pathlib import Path

from tests import soak


def test_each_scenario_has_its_line() -> None:
    text = (Path(__file__).parents[2] / "docs" / "testing.md").read_text()
    rows = re.findall(r"^\| (`.*?`) \|", text[text.index("\n## Soak") :], re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`(.*?)`", row)} == set(soak.ALL)
