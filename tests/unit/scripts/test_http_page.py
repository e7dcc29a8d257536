"""The first table of the page on HTTP: it has every operation, names no other one, and gives parameters that there
are."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, urlsplit

import pytest

from anabranch.coordinator.api.operations import OPERATIONS
from tests.support.paths import ROOT

PAGE = ROOT / "docs" / "reference" / "http.md"
NAMED = {"job": "JOB", "container": "ID", "sha256": "SHA256"}
"""Path parameters as the page writes them."""
_ROUTE = re.compile(r"`(GET|POST|PUT|DELETE) (/[^`]*)`")


def shown(path: str) -> str:
    return re.sub(r"\{(\w+)\}", lambda found: NAMED[found[1]], path)


def routes(text: str) -> list[tuple[str, str, list[str]]]:
    """Method, path and parameters of each route in the first column of the table of a page."""
    table = text.partition("## What for\n")[2].partition("\n## ")[0]
    cells = [line.split(" | ")[0] for line in table.splitlines() if line.startswith("| `")]
    found = [(method, urlsplit(path)) for cell in cells for method, path in _ROUTE.findall(cell)]
    return [(method, each.path, [name for name, _ in parse_qsl(each.query, True)]) for method, each in found]


def differences(text: str) -> list[str]:
    """What the table of a page lacks, and what it has that no operation is."""
    known = {(each.method, shown(each.path)): {one.sent_as for one in each.parameters} for each in OPERATIONS}
    given = routes(text)
    there = [(method, path) for method, path, _ in given]
    found = [f"{method} {path} isn't there" for method, path in known if (method, path) not in there]
    found += [f"{method} {path} is no operation" for method, path in there if (method, path) not in known]
    found += [
        f"{method} {path} is there twice" for method, path in dict.fromkeys(there) if there.count((method, path)) > 1
    ]
    found += [
        f"{method} {path} has no {name}"
        for method, path, names in given
        for name in names
        if name not in known.get((method, path), names)
    ]
    return found


def test_the_table_has_all_operations() -> None:
    assert differences(PAGE.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("line", "replaced", "expected"),
    [
        ("| `GET /metrics` |", "| nothing |", ["GET /metrics isn't there"]),
        (
            "| `GET /metrics` |",
            "| `GET /metrics`, `GET /jobs/JOB/code` |",
            ["GET /jobs/JOB/code is no operation"],
        ),
        ("| `GET /metrics` |", "| `GET /metrics`, `GET /jobs` |", ["GET /jobs is there twice"]),
        ("`GET /metrics`", "`GET /metrics?since=1`", ["GET /metrics has no since"]),
    ],
)
def test_a_table_that_is_wrong_is_found(line: str, replaced: str, expected: list[str]) -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert line in text
    assert differences(text.replace(line, replaced)) == expected
