"""A Delta Lake table. A lane's marker is kept in the transaction identifiers of Delta's protocol."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from anabranch import crash_points, own_files
from anabranch.errors import AnabranchError, ConfigError, ConflictError
from anabranch.tables import files, marks, options, schemas
from anabranch.tables.contract import Owner
from anabranch.tables.files import FileRef, FileWriter, Folder, Rows
from anabranch.tables.marks import NOTHING, Mark

try:
    import deltalake
    from deltalake import exceptions
    from deltalake.transaction import AddAction, CommitProperties, Transaction
except ModuleNotFoundError as error:
    raise ConfigError(
        f'an output has to = "delta", and {error.name} is missing', 'install it: pip install "anabranch[delta]"'
    ) from None

__all__ = ["DeltaFolder"]

_ATTEMPTS = 20
"""How many times a commit is tried if other commits conflict with it. Commits by other programs can conflict, and so
can a fence of the same lane. Commits by other lanes don't conflict.
"""
_LOG = "_delta_log"
_UNSUPPORTED = "unsupported table features"
_MAPPING = "delta.columnMapping.mode"
_CONSTRAINT = "delta.constraints."
_EXPIRY = "delta.setTransactionRetentionDuration"
_RULES = ("delta.invariants", "delta.generationExpression", "delta.identity.start")
"""The metadata keys of columns whose values a writer must check or compute. If a commit names finished files, deltalake
neither checks nor computes these values.
"""


class DeltaOptions(options.FolderOptions):
    NOT_LOCAL = "this version of anabranch writes Delta tables in local and shared folders only"


class DeltaFolder:
    """A Delta Lake table in a folder.

    In Delta's protocol, a table stores a version for each application id. A lane has two such ids: the version of the
    first is the lane's last batch, and the version of the second is the lane's epoch. Each commit of a batch, and each
    fence that changes the lane's marker, names the second id. Of two concurrent commits that name the same id, the
    protocol accepts only one. So a commit fails if such a fence came after the table was read.
    """

    def __init__(self, name: str, settings: Mapping[str, Any]) -> None:
        given = options.checked(DeltaOptions, name, settings)
        self._name = name
        self._root = Path(given.path)
        self._store = Folder(self._root)
        self._target = given.target_file_mb << 20

    def __str__(self) -> str:
        return f"output {self._name}, the Delta table {self._root}"

    def id(self) -> str:
        return str(self._table().metadata().id)

    def prepare(self, schema: pa.Schema, create: bool) -> None:
        if create:
            columns = deltalake.Schema(_fields(schemas.nullable(schema), str(self)))
            try:
                deltalake.DeltaTable.create(self._root, columns, mode="ignore")
            except (exceptions.DeltaError, OSError) as error:
                raise AnabranchError(
                    f"{self} can't be made: {_line(error)}", "choose another path, or change the owner or mode"
                ) from error
        self._check(self._table(), schema)

    def fence(self, owner: Owner, new: bool | None) -> None:
        for _ in range(_ATTEMPTS):
            table = self._durable()
            mark = marks.fenced(self._mark(table, owner.job, owner.lane), owner, str(self), new)
            conflict = "" if mark is None else self._commit(table, owner, mark, [])
            if not conflict:
                return
        raise self._busy(conflict)

    def last(self, job: str, lane: str) -> int:
        mark = self._mark(self._durable(), job, lane)
        return NOTHING if mark is None else mark.batch

    def writers(self, job: str) -> list[str]:
        """Always empty, because application ids can only be looked up, not listed."""
        return []

    def writer(self, owner: Owner, schema: pa.Schema) -> Rows:
        held = self._table().schema().fields
        required = [field.name for field in held if not field.nullable and field.name in schema.names]
        return Rows(FileWriter(self._store, schema, self._target), str(self), required)

    def commit(self, owner: Owner, batch: int, parts: Sequence[bytes]) -> None:
        refs = files.named(parts)
        joined: list[FileRef] | None = None
        for _ in range(_ATTEMPTS):
            table = self._durable()
            mark = marks.check(self._mark(table, owner.job, owner.lane), owner, str(self))
            if mark.batch >= batch:
                held = {uri.rpartition("/")[2] for uri in table.file_uris()}  # some files of ``parts`` may be committed
                self._drop([ref for ref in refs if ref.name not in held])
                return
            if joined is None:
                with files.told(str(self)):
                    joined = files.merged(self._store, refs, self._target)
            for ref in joined[:1]:
                self._check(table, files.columns(self._store, ref))  # other programs may have changed its columns
            conflict = self._commit(table, owner, Mark(owner.epoch, batch), joined)
            if not conflict:
                break
        else:
            raise self._busy(conflict)
        crash_points.reach(crash_points.NAMED, owner.lane, batch)
        self._drop([ref for ref in refs if ref not in joined])

    def leave(self, owner: Owner) -> None:
        """Does nothing, because a full vacuum of the table removes files that no commit names."""

    def _table(self) -> Any:
        try:
            return deltalake.DeltaTable(self._root)
        except exceptions.TableNotFoundError:
            raise marks.missing(str(self)) from None
        except (exceptions.DeltaError, OSError) as error:
            raise AnabranchError(
                f"{self} can't be read: {_line(error)}", "restore it, or see who may read it"
            ) from error

    def _durable(self) -> Any:
        """Make the table's newest version durable, and return the table. A version whose marker is trusted must survive
        a crash of the machine, but the process that committed this version may have been killed before it made the
        version durable.
        """
        table = self._table()
        self._settle(table.version())
        return table

    def _settle(self, first: int) -> None:
        """Make the log's entries from version ``first`` on, and their names, durable."""
        log = self._root / _LOG
        with files.told(str(self)):
            for version in itertools.count(first):
                try:
                    own_files.sync(log / f"{version:020}.json")
                except FileNotFoundError:  # there is no newer version, or only a checkpoint is left of this one
                    break
            own_files.sync(log)

    def _check(self, table: Any, schema: pa.Schema) -> None:
        partitions = table.metadata().partition_columns
        if partitions:
            raise ConflictError(
                f"{self} is partitioned by {', '.join(partitions)}, which anabranch can't write",
                "write to a table without partitions",
            )
        self._check_rules(table)
        held = {field.name: field for field in table.schema().fields}
        for field in _fields(schema, str(self)):
            kind = _kind(field)
            if field.name not in held:
                raise ConflictError(
                    f"the job writes a column {field.name!r} ({_shown(kind)}), which {self} doesn't have",
                    "add it to the table, or select the columns that it has",
                )
            its = _kind(held[field.name])
            if not _fits(kind, its):
                raise ConflictError(
                    f"the job writes {field.name!r} as {_shown(kind)}; in {self} it is {_shown(its)}",
                    schemas.NO_NULLS if _fits(its, kind) else "cast it in the job",
                )
        needed = next((name for name, field in held.items() if name not in schema.names and not field.nullable), None)
        if needed is not None:
            raise ConflictError(
                f"{self} has a column {needed!r} that may not be null, and the job doesn't write it", "write it"
            )

    def _check_rules(self, table: Any) -> None:
        """Raise ConflictError if the table has a property that makes it impossible or unsafe for a job to write to
        the table. Also raise ConflictError if the table has a rule, such as a constraint, that can't be checked or
        applied in a commit of finished files.
        """
        properties = table.metadata().configuration
        mapping = properties.get(_MAPPING, "none")
        if mapping != "none":
            raise ConflictError(
                f"{self} has the property {_MAPPING} = {mapping!r}, with which anabranch can't write it",
                "write to a table without column mapping",
            )
        if _EXPIRY in properties:
            raise ConflictError(
                f"{self} has the property {_EXPIRY} = {properties[_EXPIRY]!r}, with which the markers of lanes expire, "
                "and batches could be written twice",
                f"unset it, as in: alter table T unset tblproperties ('{_EXPIRY}')",
            )
        constraint = next((name for name in properties if name.startswith(_CONSTRAINT)), None)
        if constraint is not None:
            raise ConflictError(
                f"{self} has a constraint, {constraint} = {properties[constraint]!r}, which anabranch can't check",
                "drop the constraint and check it in the job, or write to a table without constraints",
            )
        for field in table.schema().fields:
            text = field.to_json()  # with its nested fields
            rule = next((name for name in _RULES if f'"{name}":' in text), None)
            if rule is not None:
                raise ConflictError(
                    f"{self} has a column {field.name!r} with {rule}, which anabranch can't check or compute",
                    "write to a table whose columns have no such rules, and compute the column in the job",
                )

    def _mark(self, table: Any, job: str, lane: str) -> Mark | None:
        batch, epoch = (table.transaction_version(each) for each in _ids(job, lane))
        return None if epoch is None else Mark(epoch, NOTHING if batch is None else batch)

    def _commit(self, table: Any, owner: Owner, mark: Mark, refs: Sequence[FileRef]) -> str:
        """Commit on top of the version that was read. Then make durable this commit and all commits that others have
        made since that version. If a conflicting commit came first, return a description of the conflict instead.
        Otherwise, return an empty string.
        """
        of_batch, of_epoch = _ids(owner.job, owner.lane)
        now, read = time.time_ns() // 1_000_000, table.version()
        named = [Transaction(of_epoch, mark.epoch, now)]
        if mark.batch > NOTHING:
            named.append(Transaction(of_batch, mark.batch, now))
        added = [AddAction(ref.name, ref.bytes, {}, now, True, json.dumps({"numRecords": ref.rows})) for ref in refs]
        about = {"anabranch": f"{owner.job}/{owner.lane}/{mark.batch}"}
        try:
            table.create_write_transaction(
                added,
                "append",
                table.schema(),
                commit_properties=CommitProperties(custom_metadata=about, app_transactions=named),
            )
        except (exceptions.DeltaError, OSError) as error:
            if _UNSUPPORTED in str(error).lower():
                raise ConflictError(
                    f"{self} can't be written: {_line(error)}", "write to a table without these features"
                ) from error
            failed = isinstance(error, exceptions.CommitFailedError)
            if failed and self._table().version() > read:
                return _line(error)
            raise AnabranchError(
                f"{self} can't be written: {_line(error)}", "the batch is written again, and nothing is lost"
            ) from error
        self._settle(read + 1)
        return ""

    def _drop(self, refs: Sequence[FileRef]) -> None:
        for ref in refs:
            self._store.remove(ref.name)

    def _busy(self, conflict: str) -> AnabranchError:
        return AnabranchError(
            f"{self} is being changed by somebody else: {_ATTEMPTS} commits in a row failed: {conflict}",
            "see the table's history for who; the batch is written again, and nothing is lost",
        )


def _ids(job: str, lane: str) -> tuple[str, str]:
    return f"anabranch/{job}/{lane}", f"anabranch/{job}/{lane}/epoch"


def _fields(schema: pa.Schema, shown: str) -> list[Any]:
    """The Delta columns for the columns that the job writes. Raises ConflictError if Delta has no type for a column.
    ``shown`` is the table's name in error messages.
    """
    fields: list[Any] = []
    for column in schema:
        try:
            fields += deltalake.Schema.from_arrow(pa.schema([column])).fields
        except Exception as error:  # deltalake raises no narrower class
            raise ConflictError(
                f"{shown} can't have a column {column.name!r} of type {column.type}",
                "cast it in the job, or leave it out",
            ) from error
    return fields


def _kind(field: Any) -> Any:
    """A column's type, as Delta's log describes it."""
    return json.loads(field.type.to_json())


def _fits(written: Any, held: Any) -> bool:
    """Whether a column of the type ``held`` takes all values of the type ``written``. If nested values may be null in
    the table, it doesn't matter whether they may be null in the rows that are written.
    """
    if isinstance(written, bool):  # "nullable", "containsNull" or "valueContainsNull"
        return bool(held) or not written
    if isinstance(written, dict) and isinstance(held, dict):
        return all(_fits(value, held.get(key)) for key, value in written.items() if key != "metadata")
    if isinstance(written, list) and isinstance(held, list):
        return len(written) == len(held) and all(map(_fits, written, held))
    return bool(written == held)


def _shown(kind: Any, nulls: bool = True) -> str:
    """A type as error messages show it."""
    match kind:
        case {"type": "array", "elementType": element, "containsNull": inside}:
            text = f"array<{_shown(element, inside)}>"
        case {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": inside}:
            text = f"map<{_shown(key)}, {_shown(value, inside)}>"
        case {"type": "struct", "fields": fields}:
            named = [f"{field['name']}: {_shown(field['type'], field['nullable'])}" for field in fields]
            text = f"struct<{', '.join(named)}>"
        case _:
            text = str(kind)
    return text if nulls else f"{text} not null"


def _line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
