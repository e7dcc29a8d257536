"""Accesses the files below a folder, on a local disk or through Hadoop's FileSystem, and updates copies of folders."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import shutil
import uuid
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from anabranch import own_files
from anabranch.container.checkpoint import leftovers
from anabranch.container.checkpoint.leftovers import PART
from anabranch.errors import AnabranchError, ConflictError, StateError
from anabranch.spark.internals.checkpoint_files import FarFiles
from anabranch.spark.internals.hadoop_files import Hadoop

__all__ = ["File", "Tree", "update"]

_LOCAL = "file:///"
_AT_ONCE = 8
"""How many files are copied at the same time. Most files are small, so copying them one by one would mean mostly
waiting for requests.
"""


@dataclass(frozen=True)
class File:
    """A file's size in bytes, and when it was last written (``changed``), in Unix seconds on the storage's clock."""

    size: int
    changed: float

    def is_copy_of(self, other: File) -> bool:
        """Whether this file is a current copy of ``other``, a file of the same name in the same storage: equally large,
        and written later. (Files of a checkpoint are written once, or replaced as a whole.) In an object store, a
        rename counts as writing.
        """
        return self.size == other.size and self.changed > other.changed


class Tree:
    """The files and folders below a path."""

    def __init__(self, spark: SparkSession, uri: str) -> None:
        self._spark = spark
        self._hadoop = Hadoop(spark)
        self.path_of = self._hadoop.path
        path = self.path_of(uri)
        self.fs = path.getFileSystem(self._hadoop.conf)
        # This adds the name node to "hdfs:///lanes": without it, Hadoop renames no file.
        self.path = path if str(self.fs.getUri()) == _LOCAL else self.fs.makeQualified(path)

    @functools.cached_property
    def local(self) -> Path | None:
        """The tree's path on a local disk, or None. Local files are read and written without Hadoop, which would start
        two processes for each file that it creates."""
        return Path(self.path.toUri().getPath()) if str(self.fs.getUri()) == _LOCAL else None

    @functools.cached_property
    def far(self) -> FarFiles:
        """Access to the files of a tree that isn't on a local disk."""
        return FarFiles(self._spark, self.fs)

    @property
    def uri(self) -> str:
        """The full URI. For ``hdfs:///lanes``, it includes the name node, which Spark doesn't fill in."""
        return str(self.fs.makeQualified(self.path).toString())

    def other(self, uri: str) -> Tree:
        """The tree at another URI, which can be in other storage."""
        return Tree(self._spark, uri)

    def at(self, name: str) -> Any:
        return self.path_of(self.path, name) if name else self.path

    def files(self, name: str) -> dict[str, File]:
        """The file of this name, or all files below the folder of this name, by name; {} if there is no such file or
        folder."""
        return self._local_files(self.local, name) if self.local is not None else self._far_files(name)

    def matching(self, pattern: str) -> list[str]:
        """The names of the files and folders below this tree that match a pattern such as ``state/*/_metadata``. Hidden
        files are left out. In the tree's own path, no character has a special meaning. (If the tree isn't on a
        local disk, Hadoop finds the names, and refuses a path with colons.)
        """
        if self.local is not None:
            found = (each.relative_to(self.local).as_posix() for each in self.local.glob(pattern))
            return sorted(name for name in found if not name.rpartition("/")[2].startswith("."))
        begin = re.sub(r"([\[\]{}*?\\])", r"\\\1", str(self.path.toString()))
        own = f"{self.uri}/"
        listed = self.fs.globStatus(self.path_of(f"{begin}/{pattern}"))
        return [str(each.getPath().toString()).removeprefix(own) for each in listed or ()]

    def copy(self, name: str, target: Tree, *, lives: bool) -> None:
        """Copy a file to the same name in another tree. ``lives`` says whether other processes may be using the trees.
        If so, the target file appears completely or not at all, and it isn't an error if the source file has
        disappeared.
        """
        try:
            if not lives:
                self._copy(name, target, name)
                return
            with target._put(name) as part:
                self._copy(name, target, part)
        except Exception:
            if not lives or self.has(name):
                raise

    def has(self, name: str) -> bool:
        """Whether a file or folder of this name exists."""
        return self.local.joinpath(name).exists() if self.local is not None else bool(self.fs.exists(self.at(name)))

    def numbers(self, name: str) -> list[int]:
        """The numbers among the names of a folder's files, in ascending order; empty if the folder doesn't exist."""
        if self.local is not None:
            with contextlib.suppress(FileNotFoundError):
                return sorted(int(each) for each in os.listdir(self.local / name) if each.isdecimal())
            return []
        names = (each.name for each in self.far.files(self.at(name), below=False))
        return sorted(int(each) for each in names if each.isdecimal())

    def read(self, name: str) -> str:
        """The text of a file."""
        if self.local is not None:
            return self.local.joinpath(name).read_bytes().decode()
        stream = self.fs.open(self.at(name))
        try:
            return str(self._hadoop.io.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def read_entry(self, name: str) -> str:
        """The text of a log's entry. If this process has just written the entry to an object store, the first call
        returns the text from memory."""
        known = None if self.local is not None else self.far.just_written(self.at(name))
        return self.read(name) if known is None else known

    def read_bytes(self, name: str) -> bytes:
        """The content of a file."""
        if self.local is not None:
            return self.local.joinpath(name).read_bytes()
        stream = self.fs.open(self.at(name))
        try:
            return bytes(self._hadoop.io.toByteArray(stream))
        finally:
            stream.close()

    def sha256(self, name: str, *, durable: bool = False) -> str:
        """The checksum of a file's content. With ``durable``, a file on a local disk is also written through to the
        disk."""
        if self.local is None:
            return self._hadoop.sha256(self.fs, self.at(name))
        with self.local.joinpath(name).open("rb") as file:
            if durable:
                os.fsync(file.fileno())
            return hashlib.file_digest(file, "sha256").hexdigest()

    def write(self, name: str, text: str, *, new: bool = False, durable: bool = True) -> None:
        """Write a file so that it appears completely or not at all.

        Args:
            new: whether it is an error if the file exists. Not checked on a local disk.
            durable: on a local disk, whether to wait until the file is written through to the disk, so that a power cut
                can neither empty it nor bring back a former file.

        Raises:
            AnabranchError: the file can't be written on the local disk. (Other storage raises its own errors.) The
                error is a StateError if there is a folder where the file should be, or a file where its folder
                should be. Only the user can change that.
            ConflictError: with ``new``, the file exists, because another process has written it.
        """
        if self.local is None:
            self._write_far(name, text, new=new)
            return
        try:
            with self._put(name) as part:
                _write(self.local / part, text, durable=durable)
                at = self.local / name
                at.with_name(f".{at.name}.crc").unlink(missing_ok=True)  # Hadoop's checksum of the former file
            if durable:
                own_files.sync(at.parent)
        except OSError as error:
            final = isinstance(error, IsADirectoryError | NotADirectoryError | FileExistsError)
            raise (StateError if final else AnabranchError)(
                f"{self.path.toString()}/{name} could not be written: {error}",
                "see that the storage root can be written to",
            ) from error

    def remove(self, name: str, *, durable: bool = False) -> None:
        """Remove a file. With ``durable``, a power cut can't bring it back on a local disk."""
        if self.local is not None:
            at = self.local / name
            at.unlink(missing_ok=True)
            if durable:
                own_files.sync(at.parent)
        else:
            self.far.delete(self.at(name))

    def sync(self, names: Iterable[str] | None = None) -> None:
        """On a local disk, make the files ``names`` and the folders that contain them durable: a power cut can then
        neither empty these files nor bring back those that were removed. None stands for all files of the tree.

        Raises:
            OSError: a file or a folder can't be synced.
        """
        if self.local is None:
            return
        due = self.all_files() if names is None else [*names]
        folders = {self.local, *(self.local / folder for name in due for folder in _folders(name))}
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="syncs") as pool:
            list(pool.map(_sync, [self.local / name for name in due]))
            list(pool.map(_sync, sorted(folders)))  # after the files, so a name never refers to an incomplete file

    def clear(self, name: str = "") -> None:
        """Delete the file or folder of this name, if it exists; '' is the whole tree."""
        self.fs.delete(self.at(name), True)

    def all_files(self) -> list[str]:
        """The names of all files, including those that Hadoop hides."""
        return sorted(self.sizes())

    def sizes(self) -> dict[str, int]:
        """The sizes of all files, in bytes, by name, including those that Hadoop hides."""
        return {name: file.size for name, file in self.files("").items()}

    def move(self, target: Tree) -> bool:
        """Move the whole tree to another path in the same storage. Returns whether this was possible."""
        if not self.has(""):
            return False
        if self.local is None or target.local is None:
            target.fs.mkdirs(target.path.getParent())
            return bool(self.fs.rename(self.path, target.path))
        own_files.make_folder(target.local.parent)
        with contextlib.suppress(FileNotFoundError):  # another process has just moved it
            os.rename(self.local, target.local)
            return True
        return False

    def _copy(self, name: str, target: Tree, to: str) -> None:
        if target.local is not None:
            own_files.make_folder(target.local.joinpath(to).parent)
        else:
            target.far.check_lease(target.at(to))
        if self.local is None or target.local is None:
            self._hadoop.files.copy(self.fs, self.at(name), target.fs, target.at(to), False, True, self._hadoop.conf)
            return
        copy = target.local / to
        is_new = not copy.exists()
        own_files.make_file(copy)
        try:
            shutil.copyfile(self.local / name, copy)
        except FileNotFoundError:
            if is_new:  # an empty file isn't a copy of one that is gone
                copy.unlink(missing_ok=True)
            raise

    @contextlib.contextmanager
    def _put(self, name: str) -> Iterator[str]:
        """Yields the name under which to write the file ``name``. On an object store, this is ``name`` itself. In other
        storage, it is a temporary name, and the temporary file is renamed at the end of the block. In both cases, the
        file ``name`` appears completely or not at all.
        """
        if self.local is None and self.far.is_object_store:
            yield name  # on an object store, a file appears only when it is complete
            return
        part = f"{name}.{uuid.uuid4().hex}{PART}"
        try:
            yield part
            if self.local is not None:
                os.replace(self.local / part, self.local / name)
            else:
                self.far.rename(self.at(part), self.at(name))
        except Exception:
            with contextlib.suppress(Exception):
                self.remove(part)
            raise

    def _write_far(self, name: str, text: str, *, new: bool) -> None:
        if not new:
            self.far.write(self.at(name), text)
        elif not self.far.create(self.at(name), text):
            raise ConflictError(
                f"{self.path.toString()}/{name} is there already: another process has written it",
                "make sure that only one process runs the job: another may be running it with a copy of its store",
            )

    @staticmethod
    def _local_files(root: Path, name: str) -> dict[str, File]:
        found = {}
        first = root / name
        for each in [str(first)] if first.is_file() else own_files.below(first):
            with contextlib.suppress(FileNotFoundError):
                about = os.stat(each)
                found[os.path.relpath(each, root)] = File(about.st_size, about.st_mtime)
        return found

    def _far_files(self, name: str) -> dict[str, File]:
        listed = self.far.files(self.at(name), below=True)
        begin = f"{name}/" if name else ""
        return {f"{begin}{each.name}" if each.name else name: File(each.size, each.changed) for each in listed}


def update(
    source: Tree, target: Tree, names: Iterable[str], *, lives: bool, known: Mapping[str, File] | None = None
) -> int:
    """Make the target's files equal to the source's, except for temporary files. Returns how many files were copied.
    On a local disk, the changes are durable when the function returns.

    A file is copied if the target has no current copy of it; see :meth:`File.is_copy_of`. A file that the source
    doesn't have is removed from the target. It isn't an error if a source file disappears during the call: even after a
    query has ended, Spark may go on deleting files with old versions of its state for some time.

    Args:
        names: the files and folders to update, in this order.
        lives: whether other processes may be using the trees; see :meth:`Tree.copy`.
        known: the target's files as they were before the target was moved to its present path; None if it wasn't moved.
            (In an object store, moving files makes them newer, so their present times don't show which of them are
            current copies.)

    Raises:
        OSError: the target has a folder where a file should be.
        Exception: the storage's own error. If the call is repeated, it copies the files that are still missing.
    """
    copied, changed = 0, list[str]()
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="copies") as pool:
        for name in names:
            theirs, ours = source.files(name), target.files(name)
            theirs = {each: file for each, file in theirs.items() if not leftovers.is_temporary(each)}
            dated = ours if known is None else {each: known[each] for each in ours.keys() & known.keys()}
            due = [each for each, file in theirs.items() if each not in dated or not dated[each].is_copy_of(file)]
            folders = {folder for each in ours for folder in _folders(each)}
            if not folders.isdisjoint(due):  # Hadoop would copy into such a folder
                raise OSError(f"a folder is where a file should be: {sorted(folders.intersection(due))[0]}")
            list(pool.map(lambda each: _copy_unless_gone(source, each, target, lives=lives), due))
            gone = ours.keys() - theirs.keys()
            list(pool.map(target.remove, gone))
            copied += len(due)
            changed += [*due, *gone]
    if changed:
        target.sync(changed)
    return copied


def _copy_unless_gone(source: Tree, name: str, target: Tree, *, lives: bool) -> None:
    try:
        source.copy(name, target, lives=lives)
    except Exception:
        if source.has(name):
            raise
        target.remove(name)


def _write(at: Path, text: str, *, durable: bool) -> None:
    """On a local disk, write a file that only its owner can read. With ``durable``, wait until the file is on the
    disk."""
    own_files.make_folder(at.parent)
    own_files.make_file(at)
    with at.open("wb") as file:
        file.write(text.encode())
        if durable:
            file.flush()
            os.fsync(file.fileno())


def _sync(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):  # it was removed
        own_files.sync(path)


def _folders(name: str) -> list[str]:
    """All folders that contain a file, directly or indirectly."""
    parts = name.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]
