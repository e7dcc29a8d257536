"""An Iceberg table. The commit that adds a batch's snapshot also sets the lane's marker, a property of the table."""

from __future__ import annotations

import contextlib
import functools
import random
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
from pydantic import Field, field_validator
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from anabranch import crash_points, own_files
from anabranch.config.secrets import resolved
from anabranch.config.storage import is_uri
from anabranch.errors import AnabranchError, ConfigError, ConflictError, LogError, NotFoundError
from anabranch.tables import files, marks, options, schemas
from anabranch.tables.contract import Owner
from anabranch.tables.files import FileRef, FileWriter, Rows
from anabranch.tables.marks import NOTHING, Mark

try:
    from pyiceberg import exceptions
    from pyiceberg.catalog import Catalog, load_catalog
    from pyiceberg.io import pyarrow as io
    from pyiceberg.io.pyarrow import UnsupportedPyArrowTypeException
    from pyiceberg.table import Table, Transaction
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import AddSnapshotUpdate, AssertTableUUID
    from requests.exceptions import RequestException

    from anabranch.tables import durable_io, iceberg_types
except ModuleNotFoundError as error:
    raise ConfigError(
        f'an output has to = "iceberg", and {error.name} is missing', 'install it: pip install "anabranch[iceberg]"'
    ) from None

__all__ = ["LONGEST_WAIT", "IcebergTable"]

_ATTEMPTS = 20
_FIRST_WAIT, LONGEST_WAIT = 0.02, 1.0
"""The limits for a random wait before a failed commit is tried again. (Any two simultaneous commits to a table
conflict, and one of them fails.) The first number is the longest possible wait, in seconds, after the first attempt.
With each further attempt, the longest possible wait doubles, until it reaches the second number.
"""
_MADE = {
    "commit.manifest-merge.enabled": "true",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
}
"""The properties with which a job creates a table. They are suitable for many small commits."""


class IcebergOptions(options.Options):
    """The settings of an Iceberg table.

    Attributes:
        table: the table's name with its namespace.
        catalog: pyiceberg's properties of the catalog. The property ``name`` is the catalog's name in pyiceberg's
            configuration; ``default`` if it isn't set.
        target_file_mb: the approximate size, in MB, at which a new file is started.
    """

    table: str
    catalog: dict[str, str] = {}
    target_file_mb: int = Field(default=128, ge=1, le=4096)

    @field_validator("table")
    @classmethod
    def _namespaced(cls, table: str) -> str:
        if not all(table.partition(".")):
            raise ValueError("a table is named with its namespace: shop.orders")
        return table

    @field_validator("catalog")
    @classmethod
    def _whole(cls, catalog: dict[str, str]) -> dict[str, str]:
        for name in ("uri", "warehouse"):
            path = catalog.get(name, "").removeprefix("sqlite:///")
            if path and not is_uri(path) and "${" not in path and not path.startswith("/"):
                raise ValueError(f"{name} must be whole: processes start in several folders")
        return catalog


class _OneCommit(Transaction):
    """A commit that succeeds only on top of the version that was read. pyiceberg itself would retry on top of a newer
    version, even a version that a fence has made.
    """

    @property
    def table_metadata(self) -> TableMetadata:
        """The table's metadata with this commit's changes. If there are no changes, the metadata isn't copied. With a
        hundred snapshots, copies would take nine tenths of a commit's time.
        """
        return super().table_metadata if self._updates else self._table.metadata

    def commit_transaction(self) -> Table:
        """Commit once. The oldest former metadata file is then deleted, if the table's properties require this."""
        mine = AssertTableUUID(uuid=self._table.metadata.table_uuid)
        self._table._do_commit(updates=self._updates, requirements=(*self._requirements, mine))
        return self._table

    def clear_away(self) -> None:
        """Remove the manifests and the manifest list of this failed commit. The data files stay."""
        for added in [update.snapshot for update in self._updates if isinstance(update, AddSnapshotUpdate)]:
            io = self._table.io
            for manifest in added.manifests(io):
                if manifest.added_snapshot_id == added.snapshot_id:
                    io.delete(manifest.manifest_path)
            io.delete(added.manifest_list)


@dataclass(frozen=True)
class _Data:
    """Stores the table's data files. A file's name is its whole location: a URI or an absolute path."""

    table: Table
    owner: Owner

    def __str__(self) -> str:
        return f"the data of {self.table.name()}"

    def new(self) -> str:
        name = f"{self.owner.lane}-{self.owner.epoch}-{uuid.uuid4().hex}.parquet"
        return str(self.table.location_provider().new_data_location(name))

    def make(self, name: str) -> Any:
        return self.table.io.new_output(name).create()

    def read(self, name: str) -> Any:
        return self.table.io.new_input(name).open()

    def settle(self, names: Sequence[str]) -> None:
        for path in [Path(name.removeprefix("file://")) for name in names]:
            if path.is_absolute():
                own_files.sync(path)
                own_files.sync(path.parent)

    def remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self.table.io.delete(name)


@dataclass(frozen=True)
class _Rows(Rows):
    """Writes rows, cast to the types of the table's columns."""

    def write(self, rows: pa.RecordBatch) -> None:
        schema = self.files.schema
        columns = [column.cast(field.type) for field, column in zip(schema, rows.columns, strict=True)]
        super().write(pa.RecordBatch.from_arrays(columns, schema=schema))


class IcebergTable:
    """An Iceberg table in a catalog.

    Each commit of a batch, and each fence that changes the lane's marker, creates a snapshot on top of the version that
    was read, and sets the marker at the same time. So if such a fence came after the table was read, the commit fails.
    (Snapshots also name the batch, but they can't replace markers, because they expire.)
    """

    def __init__(self, name: str, settings: Mapping[str, Any]) -> None:
        given = options.checked(IcebergOptions, name, settings)
        self._name = name
        self._table = given.table
        self._given = given.catalog
        self._target = given.target_file_mb << 20

    def __str__(self) -> str:
        return f"output {self._name}, the Iceberg table {self._table}"

    def id(self) -> str:
        return str(self._loaded().metadata.table_uuid)

    def prepare(self, schema: pa.Schema, create: bool) -> None:
        if create:
            with self._told():
                self._make(schema)
        self._check(self._loaded(), schema)

    def fence(self, owner: Owner, new: bool | None) -> None:
        for table in self._looks():
            mark = marks.fenced(_mark(table, owner.job, owner.lane), owner, str(self), new)
            if mark is None or self._committed(table, owner, mark, []):
                return

    def last(self, job: str, lane: str) -> int:
        mark = _mark(self._loaded(), job, lane)
        return NOTHING if mark is None else mark.batch

    def writers(self, job: str) -> list[str]:
        try:
            table, begins = self._loaded(), _property(job, "")
        except NotFoundError:
            return []
        lanes = sorted(name.removeprefix(begins) for name in table.properties if name.startswith(begins))
        return [lane for lane in lanes if (_mark(table, job, lane) or Mark(0, NOTHING)).batch > NOTHING]

    def writer(self, owner: Owner, schema: pa.Schema) -> _Rows:
        table = self._loaded()
        self._check(table, schema)
        held = io.schema_to_pyarrow(table.schema())
        mine = pa.schema([held.field(name) for name in schema.names])
        required = [field.name for field in mine if not field.nullable]
        return _Rows(FileWriter(_Data(table, owner), mine, self._target), str(self), required)

    def commit(self, owner: Owner, batch: int, parts: Sequence[bytes]) -> None:
        refs = files.named(parts)
        joined: list[FileRef] | None = None
        for table in self._looks():
            store = _Data(table, owner)
            mark = marks.check(_mark(table, owner.job, owner.lane), owner, str(self))
            if mark.batch >= batch:
                if joined is None:
                    with self._told():
                        held = _files(table)  # some files of ``parts`` may already be committed
                    self._drop(store, [ref for ref in refs if ref.name not in held])
                return
            if joined is None:
                with files.told(str(self)):
                    joined = files.merged(store, refs, self._target)
            for ref in joined[:1]:
                self._check(table, files.columns(store, ref))  # other programs may have changed its columns
            if self._committed(table, owner, Mark(owner.epoch, batch), joined):
                crash_points.reach(crash_points.NAMED, owner.lane, batch)
                self._drop(store, [ref for ref in refs if ref not in joined])
                return

    def leave(self, owner: Owner) -> None:
        """Does nothing, because maintenance of the table removes files that no snapshot names."""

    def _catalog(self) -> Catalog:
        """The catalog. Each call resolves references to secrets, and returns a new catalog object if a value has
        changed."""
        setting = f"outputs.{self._name}.catalog"
        given = {key: resolved(f"{setting}.{key}", text) for key, text in self._given.items()}
        try:
            return _catalog(given.pop("name", "default"), tuple(sorted(given.items())))
        except (ArgumentError, ValueError, ImportError, exceptions.NotInstalledError) as error:
            quotes = "@" in given.get("uri", "") and not isinstance(error, ImportError | exceptions.NotInstalledError)
            why = "its uri can't be parsed (encode special characters of the password)" if quotes else _line(error)
            raise ConfigError(
                f"{setting} isn't a catalog that pyiceberg can use: {why}",
                "see https://py.iceberg.apache.org/configuration for the properties of catalogs",
            ) from None

    def _loaded(self) -> Table:
        with self._told():
            catalog = self._catalog()
            try:
                return catalog.load_table(self._table)
            except (exceptions.ValidationError, UnicodeDecodeError) as error:
                raise LogError(
                    f"{self}: the metadata file that its catalog names is empty or damaged: {_line(error)}",
                    "restore the file, or have the catalog name the table's previous metadata file",
                ) from error

    def _looks(self) -> Iterator[Table]:
        """Yields the newest version of the table for each attempt to commit, with a pause between attempts. Raises
        AnabranchError after too many attempts.
        """
        for attempt in range(_ATTEMPTS):
            yield self._loaded()
            time.sleep(random.uniform(0, min(_FIRST_WAIT * 2**attempt, LONGEST_WAIT)))
        raise AnabranchError(
            f"{self} is being changed by somebody else: {_ATTEMPTS} commits in a row failed",
            "see the table's history for who; the batch is written again, and nothing is lost",
        )

    def _make(self, schema: pa.Schema) -> None:
        catalog = self._catalog()
        if catalog.table_exists(self._table):
            return
        catalog.create_namespace_if_not_exists(self._table.rpartition(".")[0])
        try:
            catalog.create_table_if_not_exists(self._table, schemas.nullable(schema), properties=_MADE)
        except (ValueError, UnsupportedPyArrowTypeException) as error:
            if "location" in str(error):
                raise ConfigError(
                    f"{self} can't be created: {_line(error)}", f"give outputs.{self._name}.catalog a warehouse"
                ) from None
            raise ConflictError(
                f"{self} can't have the columns of the job: {_line(error)}", "cast them in the job, or leave them out"
            ) from None

    def _check(self, table: Table, schema: pa.Schema) -> None:
        if not table.spec().is_unpartitioned():
            raise ConflictError(
                f"{self} is partitioned, which anabranch can't write", "write to a table without partitions"
            )
        held = {field.name: field for field in table.schema().fields}
        for column in schema:
            if column.name not in held:
                raise ConflictError(
                    f"the job writes a column {column.name!r} ({column.type}), which {self} doesn't have",
                    "add it to the table, or select the columns that it has",
                )
            kind, its = iceberg_types.of(column, table), held[column.name].field_type
            if kind is None or not iceberg_types.fits(kind, its):
                shown = column.type if kind is None else iceberg_types.shown(kind)
                raise ConflictError(
                    f"the job writes {column.name!r} as {shown}; in {self} it is {iceberg_types.shown(its)}",
                    schemas.NO_NULLS if kind is not None and iceberg_types.fits(its, kind) else "cast it in the job",
                )
        needed = next((name for name, each in held.items() if name not in schema.names and each.required), None)
        if needed is not None:
            raise ConflictError(
                f"{self} has a column {needed!r} that may not be null, and the job doesn't write it", "write it"
            )

    def _committed(self, table: Table, owner: Owner, mark: Mark, refs: Sequence[FileRef]) -> bool:
        """Commit on top of the version that was read. Returns False if another commit came first."""
        about = {"job": owner.job, "lane": owner.lane, "epoch": mark.epoch, "batch": mark.batch}
        with self._told():
            commit = _OneCommit(table)
            snapshot = commit.update_snapshot({f"anabranch.{key}": str(value) for key, value in about.items()})
            append = snapshot.merge_append()
            for ref in refs:
                append.append_data_file(io.parquet_file_to_data_file(table.io, table.metadata, ref.name))
            append.commit()
            commit.set_properties({_property(owner.job, owner.lane): msgspec.json.encode(mark).decode()})
            try:
                commit.commit_transaction()
            except exceptions.CommitFailedException:
                if self._loaded().snapshot_by_id(append.snapshot_id) is not None:
                    return True  # the first response was lost, so the client sent the same commit again
                commit.clear_away()
                return False
        return True

    def _drop(self, store: _Data, refs: Sequence[FileRef]) -> None:
        with files.told(str(self)):
            for ref in refs:
                store.remove(ref.name)

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Inside ``with``, errors of the catalog, and OSErrors, are raised as anabranch's errors."""
        try:
            yield
        except (exceptions.NoSuchTableError, exceptions.NoSuchNamespaceError):
            raise marks.missing(str(self)) from None
        except (exceptions.RESTError, RequestException, SQLAlchemyError) as error:
            raise AnabranchError(
                f"{self}: its catalog doesn't answer as it should: {_line(error)}",
                f"see whether it runs, and outputs.{self._name}.catalog; the batch is written again, and nothing is "
                "lost",
            ) from None  # the original error may contain resolved secrets
        except OSError as error:
            raise AnabranchError(
                f"{self} can't be read or written: {error.strerror or _line(error)}",
                "make room, or see who may read and write its files; the batch is written again, and nothing is lost",
            ) from error


@functools.lru_cache(maxsize=16)
def _catalog(name: str, properties: tuple[tuple[str, str], ...]) -> Catalog:
    return durable_io.used_by(load_catalog(name, **dict(properties)))


def _property(job: str, lane: str) -> str:
    return f"anabranch/{job}/{lane}"


_read_mark = msgspec.json.Decoder(Mark).decode


def _mark(table: Table, job: str, lane: str) -> Mark | None:
    text = table.properties.get(_property(job, lane))
    return None if text is None else _read_mark(text)


def _files(table: Table) -> set[str]:
    """The locations of the table's data files."""
    newest = table.current_snapshot()
    manifests = [] if newest is None else newest.manifests(table.io)
    return {entry.data_file.file_path for each in manifests for entry in each.fetch_manifest_entry(table.io)}


def _line(error: BaseException) -> str:
    cause = getattr(error, "orig", None) or error  # SQLAlchemy's own text contains whole statements
    return (str(cause).strip() or type(cause).__name__).splitlines()[0]
