"""``anabranch init``: creates a new project, with a small job, its settings and its test."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from anabranch.cli import progress
from anabranch.coordinator.store import address
from anabranch.errors import AnabranchError, ConflictError

_TEMPLATE = Path(__file__).parent / "template"
_FILES = {
    "job.py": "job.py",
    "anabranch.toml": "anabranch.toml",
    "tests/test_job.py": "tests/test_job.py",
    "README.md": "README.md",
    "pyproject.toml": "pyproject.toml",
    "gitignore": ".gitignore",
}
_NAME = "PROJECT"  # the folder's name replaces this word


def init(folder: Annotated[Path, typer.Argument(help="A new or empty folder.")]) -> None:
    """Create a new project: a job, its settings and a test."""
    place = folder.resolve()
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise ConflictError(
            f"{folder} {'is not empty' if place.is_dir() else 'is a file'}", "name a new folder: anabranch init my-job"
        )
    try:
        for source, target in _FILES.items():
            path = place / target
            path.parent.mkdir(parents=True, exist_ok=True)
            text = (_TEMPLATE / source).read_text(encoding="utf-8").replace(_NAME, address.encodable(place.name))
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise AnabranchError(
            f"{error.filename} can't be written: {error.strerror}", "choose another folder, or change its owner or mode"
        ) from error
    progress.say(f"{folder}: {', '.join(_FILES.values())}")
    enter = "" if place == Path.cwd() else f"  cd {folder}\n"
    progress.say(f"next:\n{enter}  pip install pytest\n  pytest\nREADME.md says how to run the job")
