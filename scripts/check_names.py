"""Finds names that say nothing, such as ``found`` or ``told``. The code still has some; their number may only fall.

A module, class, function or public attribute is named after what it is, in the words of docs/reference/glossary.md.
This compares the names in src/anabranch with the uses that scripts/names.json still allows, by word and file. Run it
with ``--lower`` to record that there are fewer.
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["BANNED", "Use", "count", "main", "problems", "uses"]

ROOT = Path(__file__).resolve().parent.parent
GLOSSARY = "docs/reference/glossary.md"
ALLOWED = "scripts/names.json"
PACKAGE = "src/anabranch"
LOWER = "python scripts/check_names.py --lower"

BANNED = {
    "afresh": "without_state",
    "ahead": "handover, prestarted",
    "begun": "may_have_written, started",
    "beside": "co_writers",
    "blame": "error_attribution",
    "each": "the element: lane, ssp, row",
    "found": "the thing that was looked up, or result",
    "held": "lock, hold, state size",
    "how": "mode, policy, options",
    "its": "whose they are: lane_tasks, job_settings",
    "keeping": "supervisor, retention",
    "put_aside": "dead_letters",
    "said": "request, response, text",
    "told": "report, response, result",
    "what": "summary, message, or the thing itself",
    "whence": "start_offsets",
    "wish": "request, command",
    "wished": "request",
    "wishes": "requests, commands",
}
"""By word, what to write instead. Only whole names count: ``held``, ``_held`` and ``Held``, but not ``held_lock``."""

Counts = Mapping[str, Mapping[str, int]]
"""The number of uses by word and file."""


@dataclass(frozen=True)
class Use:
    """A banned word as a name."""

    word: str
    file: str
    line: int
    kind: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.kind} {self.word!r}: rename it ({BANNED[self.word]}); see {GLOSSARY}"


def uses(source: str, file: str) -> list[Use]:
    """The banned names that a module defines, in the order of its lines.

    Private functions and classes count like public ones; private attributes, parameters and local variables don't.
    """
    path = Path(file)
    module = path.parent.name if path.stem == "__init__" else path.stem
    names = [(1, "module", module), *_defined(ast.parse(source))]
    words = [(line, kind, name.strip("_").lower()) for line, kind, name in names]
    return sorted((Use(word, file, line, kind) for line, kind, word in words if word in BANNED), key=lambda u: u.line)


def _defined(tree: ast.AST) -> Iterator[tuple[int, str, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef():
                yield node.lineno, "class", node.name
                yield from _assigned(node.body)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield node.lineno, "function", node.name
            case ast.Module():
                yield from _assigned(node.body)
            case ast.Attribute(value=ast.Name(id="self"), ctx=ast.Store()) if not node.attr.startswith("_"):
                yield node.lineno, "attribute", node.attr


def _assigned(body: Sequence[ast.stmt]) -> Iterator[tuple[int, str, str]]:
    """The public attributes that the body of a module or class assigns."""
    for statement in body:
        targets: Sequence[ast.expr] = []
        if isinstance(statement, ast.Assign):
            targets = statement.targets
        elif isinstance(statement, ast.AnnAssign):
            targets = [statement.target]
        for target in targets:
            if isinstance(target, ast.Name) and not target.id.startswith("_"):
                yield statement.lineno, "attribute", target.id


def count(present: Sequence[Use]) -> dict[str, dict[str, int]]:
    """Uses as ``scripts/names.json`` records them."""
    counts: dict[str, dict[str, int]] = {}
    for use in sorted(present, key=lambda use: (use.word, use.file)):
        files = counts.setdefault(use.word, {})
        files[use.file] = files.get(use.file, 0) + 1
    return counts


def problems(present: Sequence[Use], allowed: Counts) -> list[str]:
    """One message for each new use, with its place, and one for each word whose record is too high.

    A use may move to another file. When a word has more uses than are allowed, those in files that have more than
    before are listed.
    """
    counts, messages = count(present), []
    for word in sorted({*counts, *allowed}):
        now, before = counts.get(word, {}), allowed.get(word, {})
        total, limit = sum(now.values()), sum(before.values())
        if total > limit:
            grown = {file for file, number in now.items() if number > before.get(file, 0)}
            messages += [str(use) for use in present if use.word == word and use.file in grown]
            messages.append(f"{word!r} is used {total} times; {ALLOWED} allows {limit}")
        elif total < limit:
            messages.append(f"{word!r} is used {total} times; {ALLOWED} still allows {limit}: run {LOWER}")
    return messages


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Print the problems; the exit code is 1 if there are any."""
    parser = argparse.ArgumentParser(description="Check that banned words are not used as new names.")
    parser.add_argument("--lower", action="store_true", help=f"record in {ALLOWED} that there are fewer uses")
    lower = parser.parse_args(arguments).lower
    present: list[Use] = []
    for path in sorted((root / PACKAGE).rglob("*.py")):
        present += uses(path.read_text(encoding="utf-8"), path.relative_to(root).as_posix())
    record = root / ALLOWED
    allowed: Counts = json.loads(record.read_text(encoding="utf-8"))
    counts = count(present)
    grown = any(sum(files.values()) > sum(allowed.get(word, {}).values()) for word, files in counts.items())
    if lower and not grown:
        record.write_text(json.dumps(counts, indent=1) + "\n", encoding="utf-8")
        return 0
    messages = problems(present, allowed)
    for message in messages:
        print(message, file=sys.stderr)
    return 1 if messages else 0


if __name__ == "__main__":
    sys.exit(main())
