"""Loads a job file and finds its Job, or finds the job file of a Job. If the file can't be imported, the error shows
the user's lines of the traceback.
"""

from __future__ import annotations

import hashlib
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from anabranch.api.job import Job
from anabranch.errors import AnabranchError, NotFoundError, UsageError
from anabranch.job_code import job_modules, names, user_files
from anabranch.job_code.job_modules import JobCode
from anabranch.model.graph import Graph
from anabranch.spark.functions import error_text


@dataclass(frozen=True)
class JobFile:
    """A loaded job file. ``home`` is its folder."""

    path: Path
    graph: Graph
    functions: dict[int, Callable[..., Any]]

    @property
    def home(self) -> str:
        return str(self.path.parent)


def of(job: Job) -> JobFile:
    """The job file of a Job object: the first of the user's files in which the job's functions are defined, as
    :func:`anabranch.job_code.user_files.files` finds them. If there is no such file, the result is the file of the
    module that built the job. In a notebook, where there is no such module file, the result is ``job.py`` in the
    working folder.
    """
    built = getattr(sys.modules.get(job.module), "__file__", None) or "job.py"
    file = next((file for function in job.functions.values() for file in user_files.files(function)), built)
    _register(job)
    return JobFile(Path(file).resolve(), job.graph, dict(job.functions))


def _register(job: Job) -> None:
    """Let workers import the module that built the job. Does nothing if the module contains other jobs, or if other
    processes can't import the module by its name. If the module was reloaded, the module's new job replaces the old
    job.

    Raises UsageError if the module's file has changed since the module was imported, because workers would import
    different code.
    """
    module = sys.modules.get(job.module)
    if module is None or job_modules.jobs_in(module) != [job]:
        return
    code = _code_of(module)
    if code is None:
        return
    if code.sha256 != job.sha256:
        raise UsageError(
            f"{Path(code.home, code.file)} has changed since this process imported it",
            f"import it again: importlib.reload({code.name}), and use the new Job; or restart this process",
        )
    job_modules.register_imported(code, job.functions)


def _code_of(module: ModuleType) -> JobCode | None:
    """The code of a module that this process has imported. None if the module is a package, if its file can't be read,
    or if other processes can't import the module by its name.
    """
    file, parts = getattr(module, "__file__", None), module.__name__.split(".")
    if file is None or module.__name__ == "__main__" or not Path(file).is_file():
        return None
    path = Path(file).resolve()
    home = path.parents[len(parts) - 1]
    if path != home.joinpath(*parts).with_name(f"{parts[-1]}.py"):
        return None
    try:
        content = path.read_bytes()
    except OSError:
        return None
    return JobCode(module.__name__, str(home), str(path.relative_to(home)), hashlib.sha256(content).hexdigest())


def load(path: Path) -> JobFile:
    """Import a job file and find its only Job.

    Raises:
        NotFoundError: the file doesn't exist.
        UsageError: the file's name doesn't end in ``.py``, the file contains no Job or several Jobs, or it doesn't pass
            :func:`anabranch.job_code.names.check`. Also raised if the file can't be imported. The message then contains
            the user's lines of the traceback.
        AnabranchError: the file's own code raised an AnabranchError.
    """
    if not path.is_file():
        raise NotFoundError(f"there is no job file {path}", "name a Python file that builds a Job")
    path = path.resolve()
    if path.suffix != ".py":
        raise UsageError(
            f"{path} isn't a job file: its name doesn't end in .py",
            "name the .py file that builds the Job; in a notebook, %%writefile job.py writes a cell to such a file",
        )
    code = job_modules.new_code(path)
    job_modules.enter(code)
    sys.modules.pop(code.name, None)
    try:
        module = job_modules.importing(code)
    except AnabranchError:
        raise
    except (Exception, SystemExit) as error:
        names.check(code)
        raise UsageError(f"{path.name} can't be imported\n{_shortened(error, path)}", "fix the file") from error
    names.check(code)
    jobs: list[Job] = job_modules.jobs_in(module)
    if len(jobs) != 1:
        found = ", ".join(sorted(job.name for job in jobs)) or "none"
        raise UsageError(f"{path.name} must hold one Job, found {found}", 'write job = Job("a-name") at the top level')
    (job,) = jobs
    job_modules.register(code, job.functions)
    return JobFile(path, job.graph, dict(job.functions))


def _shortened(error: BaseException, path: Path) -> str:
    """The user's lines of an exception's traceback, the exception and, on its last line, the exception's causes."""
    lines, home = traceback.format_exception_only(error), str(path.parent)
    if not isinstance(error, SyntaxError):
        frames = [f for f in traceback.extract_tb(error.__traceback__) if user_files.is_below(home, f.filename)]
        lines = traceback.format_list(frames) + lines
    return "".join(lines).rstrip() + error_text.caused(error, home)
