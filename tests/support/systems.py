"""The system of tests that anabranch doesn't ship, as settings name it: the only place that does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

__all__ = ["LINES", "lines"]

LINES = "tests.support.json_lines_system:JsonLinesSystem"


def lines(root: Path) -> dict[str, Any]:
    """The section of the system in a folder."""
    return {"class": LINES, "root": str(root)}
