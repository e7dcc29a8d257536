"""Determines which files below a job's folder are the job's code."""

from __future__ import annotations

import functools
import os
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath

from anabranch.errors import AnabranchError, OutOfTimeError, UsageError

__all__ = ["DATA", "GIT_SECONDS", "fault", "listed_by_git", "packed", "unreadable", "walked"]

# fmt: off
DATA = frozenset({
    ".parquet", ".csv", ".tsv", ".arrow", ".arrows", ".feather", ".avro", ".orc", ".jsonl", ".ndjson", ".xlsx",
    ".db", ".db-journal", ".db-shm", ".db-wal", ".duckdb", ".sqlite", ".sqlite3", ".sqlite-journal", ".sqlite-shm",
    ".sqlite-wal", ".hdf5", ".h5", ".log", ".crc", ".zip", ".jar", ".tar", ".tgz", ".gz", ".bz2", ".xz", ".zst", ".7z",
    ".pyc",
})
# fmt: on
"""The suffixes of data files, which aren't part of a job's code. Schemas are part of the code: ``.avsc``, ``.proto``,
``.desc``, ``.json`` …
"""

GIT_SECONDS = 60
_GIT_PLACES = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY")


def listed_by_git(root: Path) -> list[str] | None:
    """The names, relative to ``root``, of the files below ``root`` that git doesn't ignore, whether committed or not.
    None if git isn't installed, if ``root`` isn't in a work tree, or if there are no such files.

    Raises:
        OutOfTimeError: git didn't answer.
        AnabranchError: git failed, or ``root`` is in a work tree without its repository.
    """
    command = ["git", "-c", "core.fsmonitor=false", "ls-files", "-z", "-co", "--exclude-standard"]
    env = {name: value for name, value in os.environ.items() if name not in _GIT_PLACES}
    env |= {"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = subprocess.run(
            command, cwd=root, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=GIT_SECONDS, check=False
        )
    except FileNotFoundError:
        return None
    except subprocess.TimeoutExpired as error:
        raise OutOfTimeError(
            f"{root}: git didn't list the files within {GIT_SECONDS} s", "put folders of data into .gitignore"
        ) from error
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        mark = _git_mark(root)
        if "not a git repository" in said and mark is None:
            return None
        if "not a git repository" in said:
            raise AnabranchError(
                f"{root}: git can't list the files, although {mark} is there: {said}",
                "restore the repository to which it belongs (a worktree or a submodule can't be copied without it), or "
                f"remove {mark}: then only the *.py and *.toml files are packed",
            )
        raise AnabranchError(f"{root}: git can't list the files: {said}", "see that `git ls-files` works there")
    return [os.fsdecode(name).removesuffix("/") for name in done.stdout.split(b"\0") if name] or None


def _git_mark(root: Path) -> Path | None:
    """The ``.git`` that marks ``root`` as part of a work tree; None if there is none. Like git, this function doesn't
    search beyond the file system of ``root``.
    """
    place = root.resolve()
    device = place.stat().st_dev
    for folder in (place, *place.parents):
        if folder.stat().st_dev != device:
            return None
        if os.path.lexists(folder / ".git"):
            return folder / ".git"
    return None


def walked(root: Path) -> Iterator[str]:
    """Yields the names, relative to ``root``, of the ``*.py`` and ``*.toml`` files below ``root``, except in folders
    that can't contain code of the job. A folder that disappears meanwhile, such as a temporary one, is left out.
    """

    def stop(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            raise unreadable(error)

    for folder, below, files in os.walk(root, onerror=stop):
        below[:] = [name for name in below if not _foreign(Path(folder, name))]
        for name in files:
            if name.endswith((".py", ".toml")):
                yield Path(folder, name).relative_to(root).as_posix()


def packed(root: Path, listed: Iterable[str]) -> tuple[str, ...]:
    """The listed names that belong to the job's code, sorted. Raises UsageError if a name isn't allowed, or a link
    leads to a file that isn't packed.
    """
    foreign = functools.cache(_foreign)
    names = {
        name
        for name in listed
        if not name.rpartition("/")[2].startswith(".")
        and PurePosixPath(name).suffix.lower() not in DATA
        and not any(foreign(root / folder) for folder in list(PurePosixPath(name).parents)[:-1])
        and _there(root / name)
    }
    for name in names:
        if (why := fault(name)) is not None:
            raise UsageError(f"{name!r} below {root}: {why}", "rename it, or put it into .gitignore")
        real = Path(os.path.realpath(root / name))
        if real != root / name and not (real.is_relative_to(root) and real.relative_to(root).as_posix() in names):
            raise UsageError(
                f"{root / name}: leads to {real}, which isn't packed",
                "put a copy of the file there, or keep the link out: .gitignore",
            )
    return tuple(sorted(names))


def _foreign(folder: Path) -> bool:
    """Whether a folder is hidden, contains compiled files, or is a Python environment. Nothing below such a folder
    belongs to the job's code.
    """
    return (
        folder.name.startswith(".")
        or folder.name == "__pycache__"
        or (folder / "pyvenv.cfg").exists()
        or (folder / "conda-meta").is_dir()
    )


def _there(path: Path) -> bool:
    """Whether a path exists, and isn't a folder or a link to one. (git also lists removed files and submodules.)"""
    try:
        path.lstat()
        return not path.is_dir()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise unreadable(error) from error


def fault(name: str) -> str | None:
    """Why a file in an artifact can't have this name; None if it can."""
    parts = name.split("/")
    if not name.isprintable() or "\\" in name or PureWindowsPath(name).drive:
        return "a name that isn't one everywhere"
    if any(part == "" or part.startswith(".") for part in parts):
        return "no path below the job's folder, or hidden"
    return None


def unreadable(error: OSError) -> AnabranchError:
    """The error to raise if a file of the job can't be read."""
    return AnabranchError(
        f"{error.filename}: can't be read: {error.strerror}", "let this user read it, or put it into .gitignore"
    )
