"""A job's code as one file, named by its hash. It is packed on the user's machine, and unpacked where the job runs.

The hash doesn't prove that the content is harmless, so every archive is checked. For example, an archive is refused if
it has too many files or bytes. It is also refused if it contains anything except ordinary files with allowed names. No
part of a refused archive stays in the cache.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import re
import shutil
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from anabranch import own_files
from anabranch.errors import AnabranchError, NotFoundError, UsageError
from anabranch.job_code import listing

__all__ = [
    "MAX_BYTES",
    "MAX_FILES",
    "MAX_UNPACKED",
    "Artifact",
    "check",
    "check_sha",
    "fingerprint",
    "pack",
    "packed_package",
    "unpack",
    "unpacked",
]

MAX_BYTES = 50_000_000
"""The size limit of an artifact, in bytes."""

MAX_FILES = 10_000
"""The maximum number of files in an artifact."""

MAX_UNPACKED = 200_000_000
"""The limit for the total size of an artifact's unpacked files, in bytes."""

_MARKER = ".whole"
_EPOCH = (1980, 1, 1, 0, 0, 0)
_SHA = re.compile("[0-9a-f]{64}")
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ValueError, OverflowError, struct.error)
_CURE = "send it again: anabranch start JOB.py"


@dataclass(frozen=True)
class Artifact:
    """A zip file of a job's files, its hash, and the sorted names of the files, relative to the job's folder."""

    sha256: str
    content: bytes
    names: tuple[str, ...]


def pack(home: Path, leave_out: Callable[[Path], bool] = lambda _: False) -> Artifact:
    """Pack the files below ``home``, the job file's folder. The same files give the same hash on every machine.
    ``leave_out`` returns whether to leave out a file that would otherwise be packed.

    The folder determines which files are packed:

    - in a folder that :func:`unpack` has made, and whose files haven't changed: these files;
    - in a git work tree: the files that git doesn't ignore, committed or not;
    - elsewhere, and if git isn't installed or lists no files: ``*.py`` and ``*.toml``.

    Some files are never packed: hidden files and folders (names that begin with a dot), Python environments,
    ``__pycache__``, links to folders, and data files (see :data:`anabranch.job_code.listing.DATA`). If git lists the
    files, submodules aren't packed, either. A link to a packed file becomes a copy of the file. Nothing is compressed,
    because compressors differ.

    Raises:
        NotFoundError: ``home`` isn't a folder.
        UsageError: there are no files to pack, there are too many files, or the files are too large in total. Or a file
            isn't an ordinary file, or has a name that isn't allowed on other machines. Or a link leads to a file that
            isn't packed.
        OutOfTimeError: git didn't answer.
        AnabranchError: a file can't be read, or git fails.
    """
    if not home.is_dir():
        raise NotFoundError(f"{home}: there is no such folder", "name the job's file as it is on this machine")
    root = home.resolve()
    listed = _unpacked_files(root) or listing.listed_by_git(root)
    names = listing.packed(root, listing.walked(root) if listed is None else listed)
    names = tuple(name for name in names if not leave_out(root / name))
    if not names:
        why = "no *.py or *.toml in it" if listed is None else "what git knows of it is data"
        raise UsageError(f"{home}: nothing to pack: {why}", "put the job beside its modules; see .gitignore")
    if len(names) > MAX_FILES:
        raise UsageError(
            f"{home}: {len(names)} files to pack, at most {MAX_FILES} may be",
            "put what isn't code into .gitignore, or the job into a folder of its own",
        )
    sizes = {name: _size(root / name) for name in names}
    _check_size(home, sizes, sum(sizes.values()))
    content = _zip((name, _read(root / name)) for name in names)
    _check_size(home, sizes, len(content))
    return Artifact(hashlib.sha256(content).hexdigest(), content, names)


def fingerprint(home: Path) -> str:
    """A hash of the names and contents of the ``*.py`` files below a folder, for code that is already installed where
    the job runs. The same files give the same hash on every machine.

    Files that git ignores are included. Hidden files and folders, Python environments and ``__pycache__`` aren't.

    Raises:
        NotFoundError: ``home`` isn't a folder.
        UsageError: the folder has no Python files. Or a file's name isn't allowed on other machines. Or a link leads to
            a file that isn't part of the job's code.
        AnabranchError: a file can't be read.
    """
    if not home.is_dir():
        raise NotFoundError(f"{home}: there is no such folder", "name the job's file as it is on this machine")
    root = home.resolve()
    names = [name for name in listing.packed(root, listing.walked(root)) if name.endswith(".py")]
    if not names:
        raise UsageError(f"{home}: there are no Python files", "start it in the folder with the job's code")
    return hashlib.sha256(_zip((name, _read(root / name)) for name in names)).hexdigest()


def packed_package(folder: Path) -> bytes:
    """A zip archive of the package in ``folder``, from which Python can import the package. ``*.pyc`` files are left
    out.
    """
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix != ".pyc")
    return _zip((path.relative_to(folder.parent).as_posix(), _read(path)) for path in files)


def unpack(content: bytes, sha256: str, cache: Path) -> Path:
    """Unpack ``content`` into the folder ``cache/<sha256>``, unless all its files are already there unchanged, and
    return the folder. Several processes can call this at the same time.

    Raises:
        UsageError: ``content`` doesn't have the hash ``sha256``, is too large, or is refused as an archive.
        AnabranchError: the cache can't be written.
    """
    check(sha256, content)
    target, part = cache / sha256, cache / f".{sha256}.part"
    try:
        own_files.make_folder(cache)
        with _locked(cache / f".{sha256}.lock"):
            if unpacked(sha256, cache) is None:
                _remove(part)
                try:
                    _extract(content, sha256, part)
                    _remove(target)
                    part.rename(target)
                finally:
                    _remove(part)
    except OSError as error:
        raise AnabranchError(
            f"artifact {sha256}: can't be unpacked into {cache}: {error}",
            "see that the folder can be written and that its disk has room",
        ) from error
    return target


def unpacked(sha256: str, cache: Path) -> Path | None:
    """The folder ``cache/<sha256>``, if :func:`unpack` has made it; None if there is no such folder, or if a file in it
    is missing or has changed.

    Raises:
        UsageError: ``sha256`` isn't a hash.
    """
    folder = cache / check_sha(sha256)
    return folder if _unpacked_files(folder) is not None else None


def check(sha256: str, content: bytes) -> None:
    """Raises UsageError unless ``sha256`` is the hash of ``content``, and ``content`` isn't too large."""
    check_sha(sha256)
    if len(content) > MAX_BYTES:
        raise UsageError(f"artifact {sha256}: {len(content)} bytes, at most {MAX_BYTES} may be", _CURE)
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise UsageError(f"artifact {sha256}: what came has the hash {found}", _CURE)


def check_sha(text: str) -> str:
    """Return ``text`` if it is a SHA-256 hash in 64 lower-case hexadecimal digits. Such a hash can safely be used in a
    path.

    Raises:
        UsageError: ``text`` is anything else.
    """
    if _SHA.fullmatch(text) is None:
        raise UsageError(f"{text[:80]!r} isn't an artifact's hash", "it has 64 digits of 0-9 and a-f")
    return text


def _unpacked_files(folder: Path) -> list[str] | None:
    """The names of the files in a folder that ``unpack`` has made; None for any other folder, or if a file is missing
    or has changed.
    """
    try:
        files = json.loads((folder / _MARKER).read_bytes())
        whole = all(_hash_of(folder / name) == digest for name, digest in files.items())
    except (OSError, ValueError, AttributeError):
        return None
    return list(files) if whole else None


def _size(path: Path) -> int:
    try:
        found = path.stat()
    except OSError as error:
        raise listing.unreadable(error) from error
    if not stat.S_ISREG(found.st_mode):
        raise UsageError(f"{path}: isn't an ordinary file", "move it out of the job's folder")
    return found.st_size


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise listing.unreadable(error) from error


def _check_size(home: Path, sizes: dict[str, int], total: int) -> None:
    if total > MAX_BYTES:
        largest = sorted(sizes, key=lambda name: (-sizes[name], name))[:3]
        named = ", ".join(f"{name} ({sizes[name] / 1e6:.1f} MB)" for name in largest)
        raise UsageError(
            f"{home}: {total / 1e6:.1f} MB to pack, at most {MAX_BYTES / 1e6:.0f} MB may be; the largest: {named}",
            "put what isn't code into .gitignore, or the job into a folder of its own",
        )


def _zip(files: Iterable[tuple[str, bytes]]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, data in files:
            info = zipfile.ZipInfo(name, _EPOCH)
            info.create_system = 3  # "Unix" on every machine, so the hash is the same
            info.external_attr = (stat.S_IFREG | 0o644) << 16
            archive.writestr(info, data)
    return buffer.getvalue()


def _extract(content: bytes, sha256: str, folder: Path) -> None:
    """Write the files of ``content``, and then a list of these files with their hashes. The list marks the folder as
    complete.
    """
    files: dict[str, str] = {}
    left = MAX_UNPACKED
    folder.mkdir()
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            infos = archive.infolist()
            _check_entries(infos, sha256)
            for info in infos:
                path = folder / info.filename
                path.parent.mkdir(parents=True, exist_ok=True)
                digest = hashlib.sha256()
                with archive.open(info) as source, path.open("xb") as file:
                    while chunk := source.read(1 << 16):
                        left -= len(chunk)
                        if left < 0:
                            raise _refused(sha256, f"more than {MAX_UNPACKED / 1e6:.0f} MB of files")
                        digest.update(chunk)
                        file.write(chunk)
                files[info.filename] = digest.hexdigest()
    except _BROKEN as error:
        raise _refused(sha256, f"no sound archive: {error}") from error
    except (FileExistsError, NotADirectoryError) as error:
        raise _refused(sha256, f"two of its files are at one place: {error.filename}") from error
    (folder / _MARKER).write_text(json.dumps(files))


def _check_entries(infos: list[zipfile.ZipInfo], sha256: str) -> None:
    if len(infos) > MAX_FILES:
        raise _refused(sha256, f"{len(infos)} files, at most {MAX_FILES} may be")
    if not infos:
        raise _refused(sha256, "there is nothing in it")
    for info in infos:
        name = info.orig_filename
        if name != info.filename:  # newer versions of Python take another name from an extra field
            raise _refused(sha256, f"{name!r}: is also named {info.filename!r}")
        kind = stat.S_IFMT(info.external_attr >> 16)
        if (why := listing.fault(name)) is not None:
            raise _refused(sha256, f"{name!r}: {why}")
        if kind not in (0, stat.S_IFREG):
            raise _refused(sha256, f"{name!r}: isn't an ordinary file")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise _refused(sha256, f"{name!r}: compressed by method {info.compress_type}")


def _refused(sha256: str, why: str) -> UsageError:
    return UsageError(f"artifact {sha256}: refused: {why}", _CURE)


def _hash_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on the file ``path`` during the ``with`` block. If the process is killed, the operating
    system releases the lock.
    """
    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
