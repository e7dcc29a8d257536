"""Finds tests that reach into privates: names with one leading underscore, of anything but the class they stand in.

A test goes through the door that users of the code have. What only a test needs is made public under a proper name, if
it is a seam that has a meaning, or is tested through what calls it. So this finds, in tests:

- ``thing._name``, unless ``thing`` is ``self`` or ``cls``;
- ``self._name`` and methods of that name in a class that has it from a class of ``anabranch``;
- ``from module import _name``;
- ``"_name"`` as an argument of ``setattr``, ``getattr``, ``patch.object`` and their like, also at the end of a path;
- all of that in code that stands in a string.

Mutants of the simulation may: they break the code on purpose.
"""

from __future__ import annotations

import ast
import contextlib
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

__all__ = ["main", "reaches"]

ROOT = Path(__file__).resolve().parent.parent
FOLDER = "tests"
ALLOWED = re.compile(
    r"tests/simulation/(?:autosizer/)?mutants(?:/|\.py$)"
    r"|tests/support/spark_java\.py$|tests/integration/test_private_surfaces\.py$"
    r"|tests/unit/scripts/test_check_test_privates\.py$"
)
"""Mutants, what takes private parts of Spark away to see what happens then, and the test of this."""

PUBLIC = frozenset({"_asdict", "_exit", "_field_defaults", "_fields", "_getframe", "_make", "_replace"})
"""Names of Python's library that are public in spite of their underscore."""

_BY_NAME = frozenset({"delattr", "getattr", "hasattr", "object", "patch", "setattr"})
_PRIVATE = re.compile(r"_[A-Za-z]\w*\Z")
_PATH = re.compile(r"[\w.]+\.(_[A-Za-z]\w*)\Z")


def reaches(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The line and the name of each in a module of tests, in no order."""
    own = _of_anabranch(tree)
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="self" | "cls" | "KafkaError")):
                pass  # librdkafka's own errors have names that begin so, and are public
            case ast.Attribute(attr=name) if _is_private(name):
                yield node.end_lineno or node.lineno, name
            case ast.ImportFrom(names=names):
                yield from ((node.lineno, each.name) for each in names if _is_private(each.name))
            case ast.Call(func=ast.Attribute(attr=called) | ast.Name(id=called), args=args) if called in _BY_NAME:
                for each in args[:2]:
                    if isinstance(each, ast.Constant) and isinstance(each.value, str):
                        yield from ((each.lineno, name) for name in _named(each.value))
            case ast.ClassDef(bases=bases) if any(_root(base) in own for base in bases):
                yield from _inherited(node)
            case ast.Constant(value=str(text)) if "import " in text and "\n" in text:
                yield from ((node.lineno, name) for name in _in_code(text))


def _is_private(name: str) -> bool:
    return bool(_PRIVATE.match(name)) and name not in PUBLIC


def _named(text: str) -> Iterator[str]:
    path = _PATH.match(text)
    name = path.group(1) if path else text
    if _is_private(name):
        yield name


def _in_code(text: str) -> Iterator[str]:
    """Of code in a string, which a test runs in another process, or writes into a file."""
    with contextlib.suppress(SyntaxError):
        yield from (name for _, name in reaches(ast.parse(textwrap.dedent(text))))


def _of_anabranch(tree: ast.Module) -> set[str]:
    """What a module imports from ``anabranch``, and its own classes that are made from that."""
    own = {
        (each.asname or each.name).split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for each in node.names
        if (getattr(node, "module", None) or each.name).split(".")[0] == "anabranch"
    }
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and any(_root(base) in own for base in node.bases):
            own.add(node.name)
    return own


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _inherited(of: ast.ClassDef) -> Iterator[tuple[int, str]]:
    """Private names of ``self`` that the class doesn't make itself, and so has from its base."""
    made = {
        node.attr
        for node in ast.walk(of)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _root(node.value) == "self"
    }
    for node in of.body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                made.add(name)
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                made.add(name)
    for node in ast.walk(of):
        match node:
            case ast.Attribute(value=ast.Name(id="self"), attr=name) if _is_private(name) and name not in made:
                yield node.lineno, name


def found(root: Path = ROOT) -> list[str]:
    """What is to be mended: ``file:line: name``."""
    several = []
    for file in sorted((root / FOLDER).rglob("*.py")):
        name = file.relative_to(root).as_posix()
        if not ALLOWED.match(name):
            told = sorted(set(reaches(ast.parse(file.read_text(), name))))
            several += [f"{name}:{line}: {private}" for line, private in told]
    return several


def main() -> int:
    lines = found()
    for line in lines:
        print(line)
    if lines:
        print("a test reaches into privates: go through the door, or make public what is a seam (CONTRIBUTING.md)")
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
