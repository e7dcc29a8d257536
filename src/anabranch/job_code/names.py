"""Refuses a job whose modules import an ambiguous name: a name that a module next to the job file shares with one of
Python's own modules, or with a package that workers need.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from anabranch.errors import UsageError
from anabranch.job_code.job_modules import RESERVED, JobCode, sources_of

__all__ = ["check"]


def check(code: JobCode) -> None:
    """Check that the imports in a job's modules find the intended modules.

    Raises:
        UsageError: a module of the job imports an ambiguous name. This is the name of a module next to the job file,
            and also the name of one of Python's own modules or of a package that workers need.
    """
    for path, text in sources_of(code).items():
        for line, name in _imported(text, path):
            hidden = next((each for each in _modules_of(code, name) if each.name != code.file), None)
            if name in RESERVED and hidden is not None:
                whose = "Python's own" if name in sys.stdlib_module_names else "a package that Spark's workers need"
                raise UsageError(
                    f"{Path(path).name}:{line} imports {name!r}, and {hidden.name} next to the job file has the name "
                    f"of a module of {whose}",
                    f"give {hidden.name} another name",
                )


def _imported(text: bytes, path: str) -> Iterator[tuple[int, str]]:
    """For each absolute import in a source text, the import's line number, and the first part of the imported module's
    name. Nothing if the text can't be parsed.
    """
    try:
        tree = ast.parse(text, path)
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.partition(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.lineno, node.module.partition(".")[0]


def _modules_of(code: JobCode, name: str) -> Iterator[Path]:
    for path in (Path(code.home, f"{name}.py"), Path(code.home, name, "__init__.py")):
        if path.is_file():
            yield path if path.name != "__init__.py" else path.parent
