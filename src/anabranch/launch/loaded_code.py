"""Compares a job's code with the modules that this process has loaded, and planned the job with."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

from anabranch.job_code import job_modules
from anabranch.job_code.artifact import Artifact

__all__ = ["changed"]


def changed(home: Path, packed: Artifact | None = None) -> Path | None:
    """The file of a loaded module that has another text in ``packed``, the job's packed code; without ``packed``, on
    disk. None if there is no such file. ``home`` is the job file's folder. Modules that aren't packed are compared with
    the disk.
    """
    loaded = job_modules.sources_of(job_modules.code_in(str(home)))
    there = _texts(packed, {path: Path(path).relative_to(home).as_posix() for path in loaded})
    return next((Path(path) for path, text in sorted(loaded.items()) if there[path] != text), None)


def _texts(packed: Artifact | None, names: dict[str, str]) -> dict[str, bytes | None]:
    """The texts of files by path, where ``names`` are their names in the packed code. None if a file is gone."""
    if packed is None:
        return {path: _on_disk(Path(path)) for path in names}
    with zipfile.ZipFile(io.BytesIO(packed.content)) as archive:
        return {
            path: archive.read(name) if name in packed.names else _on_disk(Path(path)) for path, name in names.items()
        }


def _on_disk(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None
