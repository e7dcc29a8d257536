"""A table that is a folder of Parquet files. The files directly in the folder have only committed rows. Each lane
has a log of the lane's commits and fences.
"""

from __future__ import annotations

import base64
import os
import shutil
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from anabranch import crash_points, own_files
from anabranch.errors import AnabranchError, LogError, NotFoundError, UnsupportedFormatError
from anabranch.tables import files, marks, options, schemas
from anabranch.tables.contract import Owner
from anabranch.tables.files import FileRef, FileWriter, Folder, Rows
from anabranch.tables.marks import NOTHING, Mark

__all__ = ["Entry", "ParquetFolder"]

FORMAT = 1
_HIDDEN = "_anabranch"
_TABLE = "table.json"
_PART = ".part"


class ParquetOptions(options.FolderOptions):
    NOT_LOCAL = "a folder of Parquet files must be on a file system with hard links"


class _Head(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the file that makes a folder a table. ``schema`` is the Arrow schema, in base64."""

    format: int
    id: str
    schema: str


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of a lane's log.

    Attributes:
        number: the entry's number, counted from 0.
        epoch: the epoch of the process that has committed the batch. In the entry of a fence, the fence's epoch.
        batch: the lane's last committed batch; -1 if there is none.
        files: the files of this batch. In the entry of a fence, empty: a fence is written only after the last batch's
            files have been moved to the table's folder.
    """

    number: int
    epoch: int
    batch: int
    files: tuple[FileRef, ...] = ()

    @property
    def mark(self) -> Mark:
        return Mark(self.epoch, self.batch)


_read_head = msgspec.json.Decoder(_Head).decode
_read_entry = msgspec.json.Decoder(Entry).decode


class ParquetFolder:
    """A table whose rows are in ``<path>/*.parquet``.

    A batch is committed as soon as the lane's log has the batch's entry. Then the lane's owner moves the batch's files
    from ``_anabranch/staged`` to ``<path>``. If the owner fails to do so, the next fence of the lane or the next replay
    of the batch moves the files.

    An entry is a new file with the next number, which only one process can create. If a former owner tries to commit
    after a fence, it finds the fence's entry, which has a higher epoch. So the commit fails.
    """

    def __init__(self, name: str, settings: Mapping[str, Any]) -> None:
        given = options.checked(ParquetOptions, name, settings)
        self._name = name
        self._root = Path(given.path)
        self._target = given.target_file_mb << 20
        self._seen: dict[tuple[str, str], int] = {}

    def __str__(self) -> str:
        return f"output {self._name}, the folder {self._root}"

    def id(self) -> str:
        return self._head().id

    def prepare(self, schema: pa.Schema, create: bool) -> None:
        if create:
            self._make(schema)
        held = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(self._head().schema)))
        schemas.check(held, schema, str(self), "write to another path, or give the columns that it has")

    def fence(self, owner: Owner, new: bool | None) -> None:
        with files.told(str(self)):
            self._fence(owner, new)

    def _fence(self, owner: Owner, new: bool | None) -> None:
        self._head()
        while True:
            tail = self._tail(owner.job, owner.lane)
            mark = marks.fenced(None if tail is None else tail.mark, owner, str(self), new)
            if tail is not None:
                self._show(owner, tail)
            if mark is None:
                break
            number = 0 if tail is None else tail.number + 1
            if self._append(owner, Entry(number=number, epoch=mark.epoch, batch=mark.batch)):
                break
        self._forget(owner)

    def last(self, job: str, lane: str) -> int:
        self._head()
        tail = self._tail(job, lane)
        return NOTHING if tail is None else tail.batch

    def writers(self, job: str) -> list[str]:
        folder = self._root / _HIDDEN / "lanes" / job
        lanes = sorted(each.name for each in folder.iterdir()) if folder.is_dir() else []
        return [lane for lane in lanes if self.last(job, lane) > NOTHING]

    def writer(self, owner: Owner, schema: pa.Schema) -> Rows:
        return Rows(FileWriter(Folder(self._staged(owner), _PART), schema, self._target), str(self))

    def commit(self, owner: Owner, batch: int, parts: Sequence[bytes]) -> None:
        with files.told(str(self)):
            self._commit(owner, batch, parts)

    def leave(self, owner: Owner) -> None:
        shutil.rmtree(self._staged(owner), ignore_errors=True)

    def _commit(self, owner: Owner, batch: int, parts: Sequence[bytes]) -> None:
        refs = files.named(parts)
        joined: list[FileRef] | None = None
        while True:
            tail = self._tail(owner.job, owner.lane)
            mark = marks.check(None if tail is None else tail.mark, owner, str(self))
            assert tail is not None
            if mark.batch >= batch:
                self._show(owner, tail)
                self._drop(owner, refs)
                return
            if joined is None:
                self._check(owner, refs)
                joined = files.merged(Folder(self._staged(owner), _PART), refs, self._target)
            placed = tuple(
                FileRef(f"{owner.lane}-{batch:08d}-{number:03d}-{Path(ref.name).stem}.parquet", ref.rows, ref.bytes)
                for number, ref in enumerate(joined)
            )
            entry = Entry(number=tail.number + 1, epoch=owner.epoch, batch=batch, files=placed)
            if self._append(owner, entry):
                break
        crash_points.reach(crash_points.NAMED, owner.lane, batch)
        self._show(owner, entry)
        self._drop(owner, [ref for ref in refs if ref not in joined])

    def _head(self) -> _Head:
        path = self._root / _HIDDEN / _TABLE
        try:
            head = _read_head(path.read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            raise NotFoundError(
                f"{self} doesn't exist, or isn't a table: {path} is missing",
                "restore it; only a new job creates it, in a folder that is empty or doesn't exist",
            ) from None
        except OSError as error:
            raise AnabranchError(
                f"{path} can't be read: {error.strerror}", "make sure that this user may read it"
            ) from error
        except msgspec.MsgspecError as error:
            raise LogError(f"{path} is damaged: {error}", "restore the file from a backup") from error
        if head.format > FORMAT:
            raise UnsupportedFormatError(
                f"{self} has format {head.format}, and this version of anabranch knows {FORMAT}", "take a newer one"
            )
        return head

    def _make(self, schema: pa.Schema) -> None:
        hidden = self._root / _HIDDEN
        try:
            foreign = any(name != _HIDDEN for name in _names(self._root))
            if foreign and not (hidden / _TABLE).exists():
                raise NotFoundError(
                    f"{self} holds files, but isn't a table of anabranch",
                    "choose a folder that is empty or doesn't exist",
                )
            hidden.mkdir(parents=True, exist_ok=True)
            packed = base64.b64encode(schema.serialize().to_pybytes()).decode()
            head = _Head(format=FORMAT, id=uuid.uuid4().hex, schema=packed)
            self._create(hidden / _TABLE, msgspec.json.encode(head))
        except NotADirectoryError:
            raise NotFoundError(
                f"{self} isn't a folder: it, or a folder above it, is a file",
                "choose a folder that is empty or doesn't exist",
            ) from None
        except OSError as error:
            raise AnabranchError(
                f"{self} can't be made: {error.strerror}", "choose another path, or change the owner or mode"
            ) from error

    def _log(self, job: str, lane: str) -> Path:
        return self._root / _HIDDEN / "lanes" / job / lane

    def _staged(self, owner: Owner) -> Path:
        return self._root / _HIDDEN / "staged" / owner.job / owner.lane / str(owner.epoch)

    def _tail(self, job: str, lane: str) -> Entry | None:
        """The last entry of a lane's log, if any."""
        log = self._log(job, lane)
        number = self._seen.get((job, lane))
        if number is None:
            number = max((int(name[:-5]) for name in _names(log) if name.endswith(".json")), default=None)
        if number is None:
            return None
        while _entry(log, number + 1).exists():
            number += 1
        self._seen[job, lane] = number
        return _read_entry(_entry(log, number).read_bytes())

    def _append(self, owner: Owner, entry: Entry) -> bool:
        """Add an entry to the lane's log. Returns False if the log has an entry with that number already."""
        log = self._log(owner.job, owner.lane)
        log.mkdir(parents=True, exist_ok=True)
        return self._create(_entry(log, entry.number), msgspec.json.encode(entry))

    @staticmethod
    def _create(path: Path, content: bytes) -> bool:
        """Create a file durably, unless it exists. Returns whether this call created it."""
        part = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
        try:
            with open(part, "xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.link(part, path)
        except FileExistsError:
            return False
        finally:
            part.unlink(missing_ok=True)
        own_files.sync(path.parent)
        return True

    def _show(self, owner: Owner, entry: Entry) -> None:
        """Move a committed batch's files to the folder that readers see, unless they are there already."""
        lane = self._staged(owner).parent
        for ref in entry.files:
            target = self._root / ref.name
            if target.exists():
                continue
            staged = f"{Path(ref.name).stem.rpartition('-')[2]}{_PART}"
            for folder in sorted(lane.iterdir()) if lane.is_dir() else []:
                if (folder / staged).exists():
                    _move(folder / staged, target)
        if entry.files:
            own_files.sync(self._root)

    def _check(self, owner: Owner, refs: Sequence[FileRef]) -> None:
        """Raise LogError unless each file has the size that its Spark task has reported."""
        for ref in refs:
            path = self._staged(owner) / ref.name
            size = path.stat().st_size if path.exists() else None
            if size != ref.bytes:
                fault = "is missing" if size is None else f"has {size} bytes instead of {ref.bytes}"
                raise LogError(
                    f"{path}, just written, {fault}",
                    f"every container must see the same folder of outputs.{self._name}, on a consistent file system",
                )

    def _drop(self, owner: Owner, refs: Sequence[FileRef]) -> None:
        for ref in refs:
            (self._staged(owner) / ref.name).unlink(missing_ok=True)

    def _forget(self, owner: Owner) -> None:
        """Remove the staged files of former owners."""
        lane = self._staged(owner).parent
        for name in _names(lane):
            if int(name) < owner.epoch:
                shutil.rmtree(lane / name, ignore_errors=True)


def _entry(log: Path, number: int) -> Path:
    return log / f"{number:012d}.json"


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []


def _move(source: Path, target: Path) -> None:
    try:
        source.rename(target)
    except FileNotFoundError:
        if not target.exists():  # otherwise another process has moved the file
            raise
