"""Finds modules, classes and functions that are too large to be read at once.

A module or a class has at most 400 lines, a function at most 60 without its docstring, a class at most 15 attributes
of its own. What is better larger is named in :data:`EXCEPTIONS`, with the reason.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["EXCEPTIONS", "Size", "main", "problems", "sizes"]

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("src", "scripts", "bench")

MOST = {"module": 400, "class": 400, "function": 60, "attributes": 15}
"""By kind: lines, lines, lines, and attributes."""

_STORED = "a document as the store and other processes have it: flat since the first version"
_SHOWN = "a document as the HTTP interface has it: clients go by its fields"
_SECTION = "a section of the configuration file: an attribute is a setting"

EXCEPTIONS: Mapping[str, str] = {
    "attributes src/anabranch/planning/assignment/racks/instance.py Instance": "a problem in numbers: each is an array",
    "attributes src/anabranch/planning/assignment/racks/problem.py Answer": _SHOWN,
    "attributes src/anabranch/config/coordinator.py CoordinatorSettings": _SECTION,
    "attributes src/anabranch/config/job.py JobSettings": _SECTION,
    "attributes src/anabranch/config/systems.py KafkaSettings": _SECTION,
    "attributes src/anabranch/coordinator/api/operation.py Operation": "a row of the table of operations",
    "attributes src/anabranch/coordinator/sizing/lane_load.py LaneLoad": "the figures of a lane that formulas go by",
    "attributes src/anabranch/model/lane.py Lane": _STORED,
    "attributes src/anabranch/planning/plan/planned.py PlannedLane": _SHOWN,
    "attributes src/anabranch/protocol/lane_report.py LoadReport": _SHOWN,
    "attributes src/anabranch/protocol/status.py JobStatus": _SHOWN,
    "attributes src/anabranch/protocol/status.py LaneSizing": _SHOWN,
    "attributes src/anabranch/views/changes.py ChangeRecord": _SHOWN,
    "attributes src/anabranch/views/live.py Live": _SHOWN,
    "attributes src/anabranch/views/overview.py JobOverview": _SHOWN,
}
"""What may be larger, by kind, file and name, and why it is better so."""


@dataclass(frozen=True)
class Size:
    """How large a module, class or function is, or how many attributes a class has."""

    kind: str
    file: str
    name: str
    line: int
    size: int

    @property
    def key(self) -> str:
        return " ".join(filter(None, (self.kind, self.file, self.name)))

    @property
    def is_too_large(self) -> bool:
        return self.size > MOST[self.kind]

    def __str__(self) -> str:
        unit, thing = ("attributes", "class") if self.kind == "attributes" else ("lines", self.kind)
        named = f"{thing} {self.name}" if self.name else thing
        return f"{self.file}:{self.line}: the {named} has {self.size} {unit}, more than {MOST[self.kind]}"


def sizes(source: str, file: str) -> Iterator[Size]:
    """Of a module, its classes and its functions."""
    yield Size("module", file, "", 1, len(source.splitlines()))
    for node in ast.walk(ast.parse(source, file)):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield Size("function", file, name, node.lineno, _lines(node) - _docstring(node))
            case ast.ClassDef(name=name):
                yield Size("class", file, name, node.lineno, _lines(node))
                yield Size("attributes", file, name, node.lineno, len(_attributes(node)))


def problems(found: Sequence[Size], exceptions: Mapping[str, str]) -> list[str]:
    """What is too large and no exception, and the exceptions that nothing needs."""
    large = [size for size in found if size.is_too_large]
    unneeded = exceptions.keys() - {size.key for size in large}
    return [
        *(f"{size}: split it" for size in large if size.key not in exceptions),
        *(f"scripts/check_sizes.py: {key} is not too large any more: remove the exception" for key in sorted(unneeded)),
    ]


def main() -> int:
    files = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    found = [size for path in files for size in sizes(path.read_text(), path.relative_to(ROOT).as_posix())]
    lines = problems(found, EXCEPTIONS)
    for line in lines:
        print(line)
    return int(bool(lines))


def _lines(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def _docstring(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    first = node.body[0]
    return _lines(first) if ast.get_docstring(node) is not None else 0


def _attributes(node: ast.ClassDef) -> set[str]:
    """The fields that the class declares, and what its methods set on ``self``."""
    fields = {
        each.target.id for each in node.body if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
    }
    for each in ast.walk(node):
        match each:
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                fields.add(name)
    return fields


if __name__ == "__main__":
    sys.exit(main())
