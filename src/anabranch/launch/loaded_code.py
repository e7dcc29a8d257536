"""Detects whether a job's code has changed since this process loaded the job's modules and planned the job with
them."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

from anabranch.job_code import job_modules
from anabranch.job_code.artifact import Artifact

__all__ = ["changed"]


def changed(home: Path, packed: Artifact | None = None) -> Path | None:
    """The file of a loaded module whose text has changed since the module was loaded; None if there is no such file. A
    module's loaded text is compared with the module's text in ``packed``, the job's packed code. If ``packed`` is None,
    or lacks the module, the loaded text is compared with the text on disk. ``home`` is the job file's folder.
    """
    loaded = job_modules.sources_of(job_modules.code_in(str(home)))
    there = _texts(packed, {path: Path(path).relative_to(home).as_posix() for path in loaded})
    return next((Path(path) for path, text in sorted(loaded.items()) if there[path] != text), None)


def _texts(packed: Artifact | None, names: dict[str, str]) -> dict[str, bytes | None]:
    """The current texts of files, by path; None for a file that is gone. ``names`` maps each file's path to the file's
    name in the packed code."""
    if packed is None:
        return {path: _on_disk(Path(path)) for path in names}
    with zipfile.ZipFile(io.BytesIO(packed.content)) as archive:
        return {
            path: archive.read(name) if name in packed.names else _on_disk(Path(path)) for path, name in names.items()
        }


def _on_disk(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None
