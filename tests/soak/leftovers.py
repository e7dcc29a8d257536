"""What a kill leaves: in lanes' folders, in the store and beside it, in the log; by kind."""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

from anabranch.container.checkpoint import leftovers as rules
from anabranch.errors import AnabranchError
from anabranch.systems.embedded import layout, partition
from tests.acceptance.harness import Workspace

KINDS: dict[str, str] = {
    "folder: none": "a new folder is made",
    "folder: empty": "the folder is filled",
    "folder: no metadata": "Spark writes it",
    "folder: no batch planned": "the lane starts in this folder, at the lane's start offsets",
    "folder: the first batch pending": "the batch is run again, from the lane's start offsets",
    "folder: a later batch pending": "the batch is run again",
    "folder: all batches committed": "the lane continues",
    "folder: no progress.json": "the file is written when the lane ends",
    "folder: one that no lane has": "the lane gets another folder, under the next epoch",
    "folder: a file that Spark had not written whole": "the file is removed",
    "folder: a file that anabranch had not written whole": "the file is removed",
    "folder: a checksum without its file": "the file is removed",
    "offsets: a file that Spark had not written whole": "it is removed: Spark refuses a new folder with such a file",
    "offsets: a file that anabranch had not written whole": "the file is removed",
    "offsets: a checksum without its file": "the file is removed",
    "commits: a file that Spark had not written whole": "it is removed: Spark refuses a new folder with such a file",
    "commits: a file that anabranch had not written whole": "the file is removed",
    "commits: a checksum without its file": "the file is removed",
    "sources: a file that Spark had not written whole": "the file is removed",
    "sources: a file that anabranch had not written whole": "the file is removed",
    "sources: a checksum without its file": "the file is removed",
    "state: a file that Spark had not written whole": "the file is removed",
    "state: a file that anabranch had not written whole": "the file is removed",
    "state: a checksum without its file": "the file is removed",
    "offsets: a file, although no batch was planned": "the file is removed",
    "commits: a file, although no batch was planned": "the file is removed",
    "state: a file, although no batch was planned": "the file is removed",
    "state: a file of a batch that was not committed": "it is removed: the batch runs again, possibly with other state",
    "any: a file without its checksum": "the file is read unchecked",
    "store: none": "the store is created",
    "store: empty": "the tables are created, in one transaction",
    "store: its journal": "SQLite applies what was committed, and discards the rest",
    "store: no job": "the job is started",
    "store: a lane without a folder": "the lane takes a folder",
    "store: a lane whose query never ran": "the lane starts",
    "store: a process that has a seat": "it loses the seat if another process gets the lock, or if the lease ends",
    "store: a job that is running": "the job continues",
    "store: a job that has ended": "the job is started again",
    "run: the note of a process that is gone": "the note is replaced; no process relies on it",
    "run: a note that was not written whole": "nothing reads it",
    "log: a folder that is no stream yet": "the stream is created in the folder",
    "log: a file that was not written whole": "nothing reads it",
    "log: a segment that no entry names": "nothing reads it",
    "log: an open transaction": "the next process that opens the slot ends it",
    "temporary: a folder of a process": "nothing reads it, and the next process that starts removes it",
    "temporary: a folder of Spark's": "nothing reads it",
    "processes: some live on": "they end on their own; until then the lock keeps other processes out of a local folder",
}
"""What becomes of each, when the job is started again."""


def leftovers(workspace: Workspace, temporary: Path | None = None) -> Counter[str]:
    """How often each kind is there. ``temporary``: the folder for temporary files that the killed processes had."""
    found: Counter[str] = Counter()
    for each in (_of_lanes(workspace), _of_store(workspace), _of_log(workspace)):
        found.update(each)
    for place, kind in (("anabranch-*", "a process"), ("spark-*", "Spark's"), ("blockmgr-*", "Spark's")):
        if temporary is not None:
            found[f"temporary: a folder of {kind}"] += len(list(temporary.glob(place)))
    unknown = found.keys() - KINDS.keys()
    assert not unknown, f"kinds of leftovers that nobody knows of: {sorted(unknown)}"
    return +found


def _of_lanes(workspace: Workspace) -> Iterator[str]:
    folders = [each for each in workspace.lanes.glob("*/*") if each.is_dir() and each.name.isdigit()]
    if not folders:
        yield "folder: none"
    for folder in folders:
        yield from _of_folder(folder)


def _of_folder(folder: Path) -> Iterator[str]:
    names = [str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()]
    if not names:
        yield "folder: empty"
        return
    for name, kind in rules.classify(names).items():
        first = name.partition("/")[0]
        yield f"{first if '/' in name else 'folder'}: {kind.value}"
    planned, committed = (
        max((int(name.partition("/")[2]) for name in names if re.fullmatch(rf"{place}/\d+", name)), default=-1)
        for place in ("offsets", "commits")
    )
    if "metadata" not in names:
        yield "folder: no metadata"
    if "progress.json" not in names:
        yield "folder: no progress.json"
    if planned < 0:
        yield "folder: no batch planned"
    elif planned > committed:
        yield f"folder: {'the first' if not planned else 'a later'} batch pending"
    else:
        yield "folder: all batches committed"
    for name in names:
        place, _, last = name.rpartition("/")
        checked = f"{place}/.{last}.crc" if place else f".{last}.crc"
        if place and not last.startswith(".") and not rules.is_temporary(name) and checked not in names:
            yield "any: a file without its checksum"


def _of_store(workspace: Workspace) -> Iterator[str]:
    home = workspace.folder / ".anabranch"
    store = home / "coordinator.db"
    if not store.exists():
        yield "store: none"
    elif not store.stat().st_size:
        yield "store: empty"
    else:
        yield from _of_tables(workspace, store)
    if any((home / f"coordinator.db{end}").exists() for end in ("-wal", "-journal")):
        yield "store: its journal"
    for note in (home / "run").glob("*.json"):
        yield "run: the note of a process that is gone" if note.stem == workspace.job else "run: another"
    for _ in (home / "run").glob(".*.tmp"):
        yield "run: a note that was not written whole"


def _of_tables(workspace: Workspace, store: Path) -> Iterator[str]:
    """What a copy says: the next process is to find the store as the killed one has left it."""
    from anabranch.coordinator.store.store import Store

    copy = workspace.folder / "looked-at.db"
    for end in ("", "-wal", "-journal"):
        with suppress(FileNotFoundError):
            Path(f"{copy}{end}").write_bytes(Path(f"{store}{end}").read_bytes())
    try:
        with closing(Store.open_existing(f"sqlite:///{copy}")) as opened:
            deployment = opened.deployment(workspace.job) if workspace.job in opened.jobs() else None
            if deployment is None:
                yield "store: no job"
                return
            ended = deployment.state in ("stopped", "failed", "drained")
            yield f"store: a job that {'has ended' if ended else 'is running'}"
            for lane in opened.lanes(workspace.job).values():
                if not lane.folder_epoch:
                    yield "store: a lane without a folder"
                elif not lane.ran:
                    yield "store: a lane whose query never ran"
                for folder in (workspace.lanes / lane.id).glob("[0-9]*/"):
                    if int(folder.name) > lane.folder_epoch:
                        yield "folder: one that no lane has"
            for container in opened.containers(workspace.job):
                if container.gone is None:
                    yield "store: a process that has a seat"
    except (AnabranchError, sqlite3.Error):
        yield "store: empty"  # its tables weren't committed
    finally:
        for path in workspace.folder.glob("looked-at.db*"):
            path.unlink()


def _of_log(workspace: Workspace) -> Iterator[str]:
    root = workspace.folder / ".anabranch" / "streams"
    if workspace.cluster is not None:
        for stream in workspace.system.streams():
            if workspace.system.ends(stream) != workspace.system.high_watermarks(stream):
                yield "log: an open transaction"
        return
    for folder in root.iterdir() if root.is_dir() else ():
        if folder.name.startswith("."):
            yield "log: a file that was not written whole"
            continue
        if not (folder / "stream.json").exists():
            yield "log: a folder that is no stream yet"
        for _ in folder.rglob(".*.tmp*"):
            yield "log: a file that was not written whole"
        for number in layout.partition_folders(str(root), folder.name):
            yield from _of_partition(root, folder.name, number)


def _of_partition(root: Path, stream: str, number: int) -> Iterator[str]:
    manifest = layout.manifest_folder(str(root), stream, number)
    named, sequence = set(), 0
    while (entry := partition.read(manifest, sequence)) is not None:
        named |= {segment.file for segment in entry.segments}
        sequence += 1
    for path in Path(layout.segments_folder(str(root), stream, number)).glob("*"):
        if path.name not in named and not path.name.startswith("."):
            yield "log: a segment that no entry names"
