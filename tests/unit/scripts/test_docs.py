"""The documentation: its links lead somewhere, and the files, modules and names that it cites exist."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.support.paths import ROOT

PACKAGE = ROOT / "src" / "anabranch"
PAGES = sorted(
    page.relative_to(ROOT).as_posix()
    for page in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob(".github/**/*.md"))
)
FOLDERS = (".ci", ".devcontainer", ".github", "bench", "dashboard", "docs", "examples", "scripts", "src", "tests")
"""A path that begins with one of these is a path in this repository, on every page."""
CONTRIBUTING = ("CONTRIBUTING.md", "docs/contributing/", "docs/reference/glossary.md")
"""Pages for contributors: paths in them may be relative to the package, and dotted names of ours are checked."""
TESTS_PAGE = "docs/contributing/testing.md"
"""Cites parts of tests by their bare names: only its paths from the root of the repository are checked."""
OF_A_USER = {"tests/test_job.py", "tests/test_kill.py"}
"""Paths in a user's own project."""

FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\[(?:[^\]\[]|\[[^\]]*\])*\]\(([^)\s]+)\)")
GENERATED = re.compile(r"^::: (\S+)$", re.MULTILINE)
"""What mkdocstrings puts there has its dotted name as its anchor."""
HEADING = re.compile(r"^#+\s+(.*?)\s*#*$", re.MULTILINE)
PATH = re.compile(r"[\w.-]+(?:/[\w.*{},-]+)*/?")
MODULE = re.compile(r"anabranch(?:\.\w+)+")
SUFFIXES = (".py", ".md", ".toml", ".java", ".json", ".yaml", ".yml", ".sh", ".service", ".properties", ".sha256")


def missing(page: str, text: str, root: Path = ROOT) -> list[str]:
    """The links, paths and names in a page that lead nowhere."""
    prose = FENCE.sub("", text)
    links = [f"link to {link}" for link in LINK.findall(CODE.sub("", prose)) if not _leads(page, text, link, root)]
    return links + [code for code in CODE.findall(prose) if not _is_known(page, code, root)]


def _leads(page: str, text: str, link: str, root: Path) -> bool:
    if re.match(r"[a-z]+:", link):  # another site
        return True
    path, _, anchor = link.partition("#")
    target = (root / page).parent / path
    if path and not target.exists():
        return False
    return not anchor or anchor in anchors(target.read_text(encoding="utf-8") if path else text)


def anchors(text: str) -> set[str]:
    """The anchors that GitHub gives the headings of a page."""
    slugs: dict[str, int] = dict.fromkeys(GENERATED.findall(text), 0)
    for heading in HEADING.findall(FENCE.sub("", text)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        number = slugs.get(slug, -1) + 1
        slugs[slug] = number
        if number:
            slugs[f"{slug}-{number}"] = 0
    return set(slugs)


def _is_known(page: str, code: str, root: Path) -> bool:
    path, _, symbol = code.partition("::")
    if PATH.fullmatch(path) and _is_path(page, path):
        files = list(_files(page, path, root))
        return bool(files) and (not symbol or any(_defines(file, symbol) for file in files))
    return MODULE.fullmatch(code) is None or not _is_for_contributors(page) or _is_module(code, root)


def _is_for_contributors(page: str) -> bool:
    return page.startswith(CONTRIBUTING) and page != TESTS_PAGE


def _is_path(page: str, path: str) -> bool:
    if path in OF_A_USER:
        return False
    if path.startswith(tuple(f"{folder}/" for folder in FOLDERS)):
        return True
    return _is_for_contributors(page) and (path.endswith(SUFFIXES) or (path.endswith("/") and path.islower()))


def _files(page: str, path: str, root: Path) -> Iterator[Path]:
    for start in (root, root / "src" / "anabranch") if _is_for_contributors(page) else (root,):
        if re.search(r"[*{]", path):
            for pattern in _expanded(path):
                yield from start.glob(pattern)
        elif (start / path).exists():
            yield start / path


def _expanded(path: str) -> list[str]:
    """A path with ``{a,b}`` as several."""
    braces = re.search(r"\{([^}]*)\}", path)
    if braces is None:
        return [path]
    return [path[: braces.start()] + choice + path[braces.end() :] for choice in braces.group(1).split(",")]


def _defines(file: Path, symbol: str) -> bool:
    return symbol in _symbols(file)


@cache
def _symbols(file: Path) -> frozenset[str]:
    """What a module defines: functions, classes and assigned names, with their attributes behind a dot."""
    return frozenset(_defined(ast.parse(file.read_text(encoding="utf-8")).body, ""))


def _defined(body: list[ast.stmt], prefix: str) -> Iterator[str]:
    for statement in body:
        match statement:
            case ast.ClassDef(name=name):
                yield prefix + name
                yield from _defined(statement.body, f"{prefix}{name}.")
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield prefix + name
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield prefix + name
            case ast.Assign():
                yield from (prefix + target.id for target in statement.targets if isinstance(target, ast.Name))


def _is_module(code: str, root: Path) -> bool:
    """Whether a dotted name is a module, or something that one defines."""
    parts = code.split(".")
    for length in range(len(parts), 0, -1):
        base = root.joinpath("src", *parts[:length])
        module = base.with_suffix(".py") if base.with_suffix(".py").exists() else base / "__init__.py"
        if module.exists():
            return length == len(parts) or _defines(module, ".".join(parts[length:])) or _exports(module, parts[length])
    return False


def _exports(module: Path, name: str) -> bool:
    return f'"{name}"' in module.read_text(encoding="utf-8")


def test_there_are_pages() -> None:
    assert {"README.md", "CONTRIBUTING.md", "docs/README.md", "docs/contributing/architecture.md"} <= set(PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_all_that_a_page_cites_exists(page: str) -> None:
    assert missing(page, (ROOT / page).read_text(encoding="utf-8")) == []


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs/README.md").read_text(encoding="utf-8")
    linked = {(ROOT / "docs" / link.partition("#")[0]).resolve() for link in LINK.findall(index) if ":" not in link}
    pages = {page.resolve() for page in ROOT.glob("docs/**/*.md")} - {ROOT / "docs/README.md"}
    decisions = {page for page in pages if page.parent.name == "decisions" and page.name != "README.md"}
    assert pages - decisions <= linked
    listed = (ROOT / "docs/contributing/decisions/README.md").read_text(encoding="utf-8")
    assert [page.name for page in sorted(decisions) if f"({page.name})" not in listed] == []


def test_no_document_outside_of_the_repository_is_cited() -> None:
    pattern = r"\b(DESIGN|HOUSE|FACTS|STYLE)\.md|(^|[^/\w.])(spec|seeds)/[a-z]|\.\./shared"
    command = ["git", "grep", "-nIE", pattern, "--", ".", ":!tests/unit/scripts/test_docs.py"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode == 128:
        pytest.skip("not a git checkout")
    assert done.stdout.splitlines() == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[a](docs/reference/operators.md) [b](docs/reference/operators.md#key-bytes) [c](#here)\n\n# Here", []),
        ("[a](docs/no.md)", ["link to docs/no.md"]),
        ("[a](docs/reference/operators.md#no-such-heading)", ["link to docs/reference/operators.md#no-such-heading"]),
        ("[a](#nowhere)", ["link to #nowhere"]),
        ("[a](https://example.com/docs/no.md)", []),
        ("`scripts/test` `examples/delays.py` `tests/unit/test_*.py` `coordinator/no.py` `python`", []),
        ("`scripts/no` `tests/unit/no_*.py`", ["scripts/no", "tests/unit/no_*.py"]),
        ("```\n[a](docs/no.md) `scripts/no`\n```", []),
    ],
)
def test_what_a_page_for_users_cites(text: str, expected: list[str]) -> None:
    assert missing("page.md", text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("`model/lane.py` `src/anabranch/model/lane.py` `systems/kafka/` `coordinator/jobs/states/*.py`", []),
        ("`model/no.py` `nowhere/`", ["model/no.py", "nowhere/"]),
        ("`model/lane.py::Lane` `model/lane.py::Lane.start_is_known` `model/lane.py::open_lanes`", []),
        ("`model/lane.py::Lane.no` `model/no.py::Lane`", ["model/lane.py::Lane.no", "model/no.py::Lane"]),
        ("`anabranch.model.lane` `anabranch.model.lane.Lane.state` `anabranch.Job`", []),
        ("`anabranch.model.no` `anabranch.model.lane.No`", ["anabranch.model.no", "anabranch.model.lane.No"]),
    ],
)
def test_what_a_page_for_contributors_cites(text: str, expected: list[str]) -> None:
    assert missing("docs/contributing/page.md", text) == expected


def test_headings_of_one_text_have_different_anchors() -> None:
    assert anchors("# A `b` c\n## Two, 3\n# A b c\n```\n# no\n```") == {"a-b-c", "two-3", "a-b-c-1"}
