"""Makes a job's modules importable in this process and in Python workers: the job file, under a unique module name, and
the modules next to it.

Python workers import a job's modules as any program does, and no objects are copied from the user's process. But on the
user's machine, a worker may import a module that the user's process has already run. The worker then gets the text that
the user's process has run, even if the module's file has been edited since.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import json
import os
import re
import sys
import threading
from collections.abc import Collection, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass, field, replace
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

from anabranch import scratch
from anabranch.api.job import Job
from anabranch.errors import UsageError
from anabranch.job_code import environment, user_files
from anabranch.job_code.environment import Changes
from anabranch.job_code.source_loader import SourceLoader, read_texts, text_of, write_texts

__all__ = [
    "RESERVED",
    "SHELF",
    "VARIABLE",
    "JobCode",
    "code_in",
    "code_of",
    "enter",
    "enter_from_environment",
    "home_of",
    "importing",
    "jobs_in",
    "new_code",
    "refresh",
    "register",
    "register_imported",
    "shelf",
    "snapshot",
    "sources_of",
]

VARIABLE = "ANABRANCH_JOB_CODE"
"""The name of the environment variable that gives Python workers a session's :class:`JobCode`, as JSON."""

SHELF = "ANABRANCH_JOB_SHELF"
"""The name of the environment variable with the path of a folder. In this folder, the user's process stores the
:class:`JobCode` of each job that is passed to :func:`register`. Workers on the same machine read the code there.
"""

_INSTALLED = ("anabranch", "pyspark", "py4j", "pandas", "numpy", "pyarrow", "msgspec", "xxhash", "confluent_kafka")
"""The packages that workers need in addition to Python's own modules. A job's module must not have the name of such a
package.
"""

RESERVED = frozenset(sys.stdlib_module_names) | frozenset(_INSTALLED)


@dataclass(frozen=True)
class JobCode:
    """Describes where the modules of a job are.

    Attributes:
        name: the name of the job file's module; '' if there is no job file.
        home: the folder from which modules are imported.
        file: the job file, relative to ``home``. ``sha256`` is the hash of its content.
        sources: a file with the text of the modules that the user's process has run; '' if modules are read from disk.
        reloads: how often the user's process has imported the job's module again.
        path: further folders from which the user's process imports modules.
    """

    name: str
    home: str
    file: str = ""
    sha256: str = ""
    sources: str = ""
    reloads: int = 0
    path: tuple[str, ...] = ()

    def dumped(self) -> str:
        """The code as text, for :data:`VARIABLE`."""
        return json.dumps(asdict(self))

    def on_this_machine(self) -> JobCode:
        """The code for workers on this machine: with its ``sources``, and with this process's ``sys.path``."""
        return replace(
            snapshot(self), path=tuple(os.path.abspath(each) for each in sys.path if os.path.exists(each or "."))
        )


@dataclass(frozen=True)
class _Loaded:
    code: JobCode
    functions: Mapping[int, Any]


@dataclass
class _Finder(MetaPathFinder):
    """Finds modules in a job's folder, with precedence over installed modules. Finds the job file only by the name in
    ``code``. Doesn't find top-level modules with :data:`RESERVED` names. This finder finds either all modules of a
    package or none of them. Otherwise, some of a package's modules could be imported again without the others, and
    there would be two versions of the package's classes.

    Attributes:
        environment: in a worker, the changes to the environment that are in effect when the modules are imported.
        served: the names of the modules that this finder has found for imports.
        snapshot: the result of :func:`snapshot`, once that function has stored the ``sources``; None before.
    """

    code: JobCode
    sources: dict[str, bytes] = field(default_factory=dict)
    environment: Changes = field(default_factory=environment.applied)
    served: set[str] = field(default_factory=set)
    snapshot: JobCode | None = None

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        found = self._found(fullname, path)
        if found is None or found.origin is None:
            return None
        self.served.add(fullname)
        if target is not None:  # the module is reloaded
            self.sources.pop(found.origin, None)
            self.snapshot = None
        if isinstance(found.loader, SourceFileLoader):
            found.loader = SourceLoader(fullname, found.origin, self.sources)
        return found

    def fits(self, code: JobCode) -> bool:
        """Whether this finder's modules are those of ``code``. In a worker, the modules must also have been imported
        with the worker's present environment.
        """
        return self.code == code and self.environment == environment.applied()

    def has(self, name: str) -> bool:
        """Whether the job has a top-level module of this name."""
        return "." not in name and self._found(name, None) is not None

    def _found(self, fullname: str, path: Sequence[str] | None) -> ModuleSpec | None:
        code = self.code
        if fullname == code.name and "." not in fullname:
            return importlib.util.spec_from_file_location(fullname, Path(code.home, code.file))
        if path is None:
            if fullname in RESERVED or fullname == Path(code.file).stem:
                return None
            if user_files.is_library(code.home) and fullname != code.name.partition(".")[0]:
                return None
            path = [code.home]
        elif not self._is_in_home(fullname.rpartition(".")[0], path):
            return None
        found = PathFinder.find_spec(fullname, path)
        if found is None or found.loader is None or found.origin is None:
            return None
        return found if Path(found.origin).is_relative_to(code.home) else None

    def _is_in_home(self, package: str, path: Sequence[str]) -> bool:
        """Whether the modules of a package come from the job's folder. A package with a file must have been found by
        this finder, or contain the job. A package without a file must have a folder at its place in the job's folder.
        If such a package is in another package, the other package must come from the job's folder, too.
        """
        if getattr(sys.modules.get(package), "__file__", None) is not None:
            return package in self.served or self.code.name.startswith(f"{package}.")
        outer = package.rpartition(".")[0]
        if outer in sys.modules and not self._is_in_home(outer, sys.modules[outer].__path__):
            return False
        return Path(self.code.home, *package.split(".")) in map(Path, path)

    def invalidate_caches(self) -> None:
        """Does nothing, because there are no caches."""

    @property
    def changed(self) -> bool:
        """Whether the file of a module has changed since it was read."""
        return any(text_of(Path(path)) != text for path, text in self.sources.items())


_entering = threading.RLock()
_loaded: dict[str, _Loaded] = {}
_given: dict[str, JobCode] = {}
_shelves: list[str] = []


def new_code(file: Path) -> JobCode:
    """The code of a job file that this process is about to load. The module's name is unique, because it is made from
    the file's path and text.
    """
    content = file.read_bytes()
    stem = re.sub(r"\W", "_", file.stem)
    place = hashlib.sha256(os.fsencode(file) + b"\0" + content).hexdigest()[:8]
    return JobCode(f"anabranch_job_{stem}_{place}", str(file.parent), file.name, hashlib.sha256(content).hexdigest())


def enter(code: JobCode) -> None:
    """Make the modules of a job importable in this process, with precedence over modules of jobs that were entered
    before. If the code has changed since the modules were imported, the modules are imported again. In a worker, the
    modules are also imported again if the environment has changed.
    """
    with _entering:
        others = [each for each in _finders() if each.code.home != code.home]
        finder = next((each for each in _finders() if each.code.home == code.home), None)
        if finder is not None and not (finder.fits(code) and (code.sources or not finder.changed)):
            _forget(finder, finder.served)
            sys.meta_path.remove(finder)
            finder = None
        if finder is None:
            finder = _Finder(code, read_texts(Path(code.sources)) if code.sources else {})
        else:
            sys.meta_path.remove(finder)
        for each in others:
            _forget(each, {name for name in each.served if finder.has(name)})
        sys.meta_path.insert(0, finder)
        sys.path += [each for each in dict.fromkeys((*code.path, code.home)) if each not in sys.path]


def refresh() -> None:
    """Let a worker whose environment has changed import the modules of all jobs again."""
    with _entering:
        for finder in reversed(_finders()):
            if not finder.fits(finder.code):
                enter(finder.code)


@dataclass(frozen=True)
class _Shelf(MetaPathFinder):
    """Finds modules that no other finder finds, in the folders of all jobs that the user's process has loaded,
    including jobs loaded since the session was started. The job that was loaded last comes first.
    """

    folder: Path

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if path is not None:
            return None
        for file in sorted(self.folder.glob("*.json"), reverse=True):
            code = _read_code(file.read_text())
            if _Finder(code).has(fullname):
                enter(code)
                return _finders()[0].find_spec(fullname, None)
        return None

    def invalidate_caches(self) -> None:
        """Does nothing, because there are no caches."""


def enter_from_environment() -> None:
    """Let this process import the modules of the jobs that its environment describes. A process calls this before it
    forks the processes that run user code.
    """
    if SHELF in os.environ:
        sys.meta_path.append(_Shelf(Path(os.environ[SHELF])))
    told = os.environ.get(VARIABLE)
    if told:
        code = _read_code(told)
        _given[code.name] = code
        enter(code)


def _read_code(dumped: str) -> JobCode:
    given = json.loads(dumped)
    return JobCode(**{**given, "home": os.path.abspath(given["home"]), "path": tuple(given["path"])})


def importing(code: JobCode) -> ModuleType:
    """The module of a job file, imported if necessary. What the module prints during the import goes to stderr, because
    stdout is used for data. If :func:`enter_from_environment` has found code with the same name and hash, that code is
    used, because the paths in ``code`` are those of the user's process.

    Raises UsageError if the code has no ``sources``, and the job file differs from the one that started the job.
    """
    with _entering:
        here = _here(code)
        if not any(each.fits(here) for each in _finders()[:1]):
            enter(here)
        file = Path(here.home, here.file)
        if not here.sources and hashlib.sha256(text_of(file)).hexdigest() != here.sha256:
            raise UsageError(f"{file} isn't the job file that the job was started with", "start the job again")
        with redirect_stdout(sys.stderr):
            return importlib.import_module(here.name)


def jobs_in(module: ModuleType) -> list[Job]:
    """The jobs at the top level of a module, without duplicates."""
    return list({id(value): value for value in vars(module).values() if isinstance(value, Job)}.values())


def home_of(code: JobCode) -> str:
    """The folder from which this process imports the job's modules."""
    return _here(code).home


def _here(code: JobCode) -> JobCode:
    """The code with the paths of this process, if this process was given code with the same name and hash. Other code,
    such as that of a module that was imported again after an edit, is returned unchanged.
    """
    given = _given.get(code.name)
    return replace(given, reloads=code.reloads) if given is not None and given.sha256 == code.sha256 else code


def register(code: JobCode, functions: Mapping[int, Any]) -> None:
    """Record that this process has loaded a job file. ``functions`` are the functions of the file's job, by node."""
    _loaded.pop(code.name, None)
    _loaded[code.name] = _Loaded(code, functions)
    if _shelves:
        _put_on_shelf(code)


def register_imported(code: JobCode, functions: Mapping[int, Any]) -> None:
    """Record that this process has imported a module with a job. If the module was already registered with the
    functions of another job, the module has been reloaded. Workers then import all of the job's modules again, because
    the job's other modules may have been reloaded, too.
    """
    before = _loaded.get(code.name)
    if before is None:
        register(code, functions)
    elif before.functions is not functions:
        register(replace(code, reloads=before.code.reloads + 1), functions)


def shelf() -> str:
    """The folder in which this process stores the code of its jobs; see :data:`SHELF`. The first call creates it."""
    if not _shelves:
        _shelves.append(str(scratch.folder("job-shelf")))
        for each in _loaded.values():
            _put_on_shelf(each.code)
    return _shelves[0]


def _put_on_shelf(code: JobCode) -> None:
    number = len(os.listdir(_shelves[0]))
    made = Path(_shelves[0], f"{number:06d}.made")
    made.write_text(snapshot(code).dumped())
    made.rename(made.with_suffix(".json"))


def code_of(node: int, function: Any) -> JobCode | None:
    """The code of the job file from which an operator's function comes; None if this process loaded no such file."""
    for each in reversed(_loaded.values()):
        if each.functions.get(node) is function:
            return each.code
    return None


def code_in(home: str) -> JobCode:
    """The code of the job that was last loaded from a folder. If there is none, code without a job file."""
    found = (each.code for each in reversed(_loaded.values()) if each.code.home == home)
    return next(found, JobCode("", home))


def snapshot(code: JobCode) -> JobCode:
    """The code with its ``sources`` set, for other processes on this machine. If this process has read none of the
    job's modules, the code is returned unchanged. The file ``sources`` exists until this process ends. The file is
    written at the first call, so it lacks modules that this process imports later. Other processes read those modules
    from disk.
    """
    with _entering:
        finder = next((each for each in _finders() if each.code == code), None)
        if finder is None or not finder.sources:
            return code
        if finder.snapshot is None:
            folder = scratch.folder("job-code")
            write_texts(folder / "sources.json", finder.sources)
            finder.snapshot = replace(code, sources=str(folder / "sources.json"))
        return finder.snapshot


def sources_of(code: JobCode) -> dict[str, bytes]:
    """Maps the paths of the job's modules that this process has imported to the modules' texts."""
    return {path: text for each in _finders() if each.code == code for path, text in tuple(each.sources.items())}


def _finders() -> list[_Finder]:
    return [each for each in sys.meta_path if isinstance(each, _Finder)]


def _forget(finder: _Finder, names: Collection[str]) -> None:
    """Forget the modules ``names`` and their submodules, so that these modules are imported again. This function is
    called if the job's code has changed, or if another job has modules with the same names.
    """
    for name in tuple(names):
        for each in [each for each in sys.modules if each == name or each.startswith(f"{name}.")]:
            forgotten, (parent, _, last) = sys.modules.pop(each), each.rpartition(".")
            if getattr(sys.modules.get(parent), last, None) is forgotten:
                delattr(sys.modules[parent], last)  # "from parent import last" looks there first
            finder.served.discard(each)
