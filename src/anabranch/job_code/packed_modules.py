"""Checks that a job's packed code has all modules that the job imports."""

from __future__ import annotations

from pathlib import Path

from anabranch.errors import UsageError
from anabranch.job_code import job_modules
from anabranch.job_code.artifact import Artifact

__all__ = ["check"]


def check(home: Path, packed: Artifact) -> None:
    """Raises UsageError if this process has imported a module of the job that isn't in ``packed``, the job's packed
    code. Unless the import is optional, the job couldn't be imported where the code is unpacked. ``home`` is the job
    file's folder.
    """
    for path in sorted(job_modules.sources_of(job_modules.code_in(str(home)))):
        if Path(path).relative_to(home).as_posix() not in packed.names:
            raise UsageError(
                f"{path} is a module of the job, but isn't packed with the job's code: git ignores it, it is gone, or "
                "it is hidden or below a link, a submodule or a Python environment",
                "see that it is packed, for example by an exception in .gitignore (!NAME), or don't import it",
            )
