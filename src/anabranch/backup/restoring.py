"""Restores a job from a backup to a store and a storage root that don't contain the job yet.

Because of the order of the steps, an interrupted restore can be repeated, and the store doesn't know the job until
everything else is in place:

1. compare all files of the backup with their checksums. Also check three conditions: the job's lanes have no folders
   yet, outputs that won't be restored contain only batches that the backup knows, and existing streams still have the
   records that the job must read;
2. copy each stream that doesn't exist here to a temporary folder, and move it to its place in one step;
3. copy the folders of lanes;
4. store the job's rows in one transaction. The job can then be started.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass
from typing import Any

from anabranch import config as configuration
from anabranch import crash_points, own_files
from anabranch.backup import later_batches, manifest, rows
from anabranch.backup.manifest import FileSum, Manifest
from anabranch.backup.mirror import copy_all
from anabranch.backup.moment import Moment
from anabranch.config import Settings
from anabranch.container.checkpoint import copying
from anabranch.container.checkpoint.filesystem import Tree
from anabranch.container.checkpoint.folder import Folder
from anabranch.coordinator.leadership import endpoint
from anabranch.coordinator.store import Event, Store, address
from anabranch.coordinator.store.moving import JobRows
from anabranch.errors import ConflictError, DamagedError, NotFoundError
from anabranch.model.document import Document, decode, encode
from anabranch.systems.systems import Systems

__all__ = ["checked", "restore"]

_NOTE = "restoring.json"


class _Note(Document, frozen=True, kw_only=True):
    """The content of a file that marks a restore in progress. The file is next to the folders of the job's lanes. It
    exists from before these folders are copied until the store knows the job.
    """

    backup: str
    """The id of the backup."""


@dataclass(frozen=True)
class _Restore:
    """A restore in progress.

    Args:
        settings: this machine's settings.
        job_settings: the settings that the restored job gets.
    """

    spark: Any
    tree: Tree
    backup: Manifest
    moment: Moment
    settings: Settings
    job_settings: Settings

    @property
    def systems(self) -> Systems:
        return Systems(self.job_settings, self.backup.job)

    @property
    def lanes(self) -> Tree:
        """Where the folders of the job's lanes will be."""
        return self.tree.other(f"{self.job_settings.storage.root}/{self.backup.job}")


def checked(spark: Any, uri: str) -> Manifest:
    """Check a backup's files, and return its manifest. Raises the errors of :func:`manifest.read` and
    :func:`manifest.verify`.
    """
    tree = Tree(spark, uri)
    found = manifest.read(tree)
    manifest.verify(tree, found)
    return found


def restore(spark: Any, settings: Settings, uri: str, now: Callable[[], float]) -> Manifest:
    """Restore a job into the store, the storage root and the systems that the settings name. Returns the backup's
    manifest. ``now`` returns the seconds since 1970.

    Raises:
        NotFoundError: there is no complete backup.
        DamagedError: a file of the backup is damaged.
        UnsupportedFormatError: the manifest was written by a newer anabranch, or is damaged.
        ConflictError: the store already has the job, folders of its lanes already exist, or another process on this
            machine is running the job. This error is also raised if a stream that exists here isn't the one in the
            backup, or lacks records, or if outputs that aren't restored contain batches unknown to the backup.
    """
    tree = Tree(spark, uri)
    found = manifest.read(tree)
    with _alone(settings, found.job):
        if _is_done(tree, settings, found):
            return found
        manifest.verify(tree, found)
        moment = Moment(found.job, rows.kept(found.job, tree))
        due = _Restore(spark, tree, found, moment, settings, _settings(settings, moment.rows))
        _check_folders(due)
        there, wrong = _streams_there(due)
        if wrong is None:
            _check_kept(due, there)
        # Checked even if a stream is wrong: if the job continued after the backup, its outputs must be set back anyway.
        later_batches.check(due.systems, found, moment, {each.stream for each in found.streams} - there)
        if wrong is not None:
            raise wrong
        crash_points.reach(crash_points.FOUND_WHOLE, found.job, 0)
        for each in found.streams:
            if each.stream not in there:
                _place_stream(due, each.system, each.stream)
        crash_points.reach(crash_points.PLACED, found.job, 0)
        _place_folders(due)
        crash_points.reach(crash_points.FOLDERS_PLACED, found.job, 0)
        why = f"restored from {uri}, made by anabranch {found.anabranch}"
        event = Event(kind="other", job=found.job, at=now(), who="user", what="the job was restored", why=why)
        with closing(Store(settings.coordinator.store)) as store:
            store.import_job(found.job, rows.at_rest(moment.rows, _places(settings), why), event)
        crash_points.reach(crash_points.STORED, found.job, 0)
        due.lanes.remove(_NOTE)
    return found


def _alone(settings: Settings, job: str) -> AbstractContextManager[object]:
    """Inside ``with``, no other process on this machine can run the job. Entering the block raises ConflictError if
    another process runs the job. If the store is on a server, other processes aren't kept from running the job.
    """
    url = settings.coordinator.store
    return nullcontext() if address.is_on_server(url) else endpoint.RunLock(url, job)


def _is_done(tree: Tree, settings: Settings, found: Manifest) -> bool:
    """Whether this backup has already been restored by a process that was killed before it removed its note. If so,
    removes the note.

    Raises:
        ConflictError: the store already has a job of this name, but not from an interrupted restore of this backup.
    """
    try:
        store = Store.open_existing(settings.coordinator.store, to_write=True)
    except NotFoundError:
        return False
    with closing(store):
        if found.job not in store.jobs():
            return False
        its = _settings(settings, store.export_job(found.job))
    lanes = tree.other(f"{its.storage.root}/{found.job}")
    if _is_noted(lanes, found):
        lanes.remove(_NOTE)
        return True
    raise ConflictError(
        f"the store {store.url} has a job {found.job!r} already",
        f"restore it with another store, [coordinator] store; or see what that job is: anabranch status {found.job}",
    )


def _is_noted(lanes: Tree, backup: Manifest) -> bool:
    """Whether a restore of this backup began to create folders and hasn't ended."""
    return lanes.has(_NOTE) and decode(lanes.read_bytes(_NOTE), _Note).backup == backup.id


def _places(settings: Settings) -> dict[str, Any]:
    """The settings that say where lanes and streams are on this machine."""
    archives = {system.name: system.archive() for system in Systems(settings).all}
    roots = {name: {"root": str(each.folder)} for name, each in archives.items() if each is not None}
    return {"storage": {"root": settings.storage.root}, "systems": roots}


def _settings(settings: Settings, its: JobRows) -> Settings:
    """The settings with which the job was started, but with the locations on this machine. If the job ran in one
    process with its coordinator, the result is this machine's settings.
    """
    program = rows.last_program(its)
    if program is None:
        return settings
    return configuration.restored(rows.joined(program.settings, _places(settings)))


def _check_folders(due: _Restore) -> None:
    """Raises ConflictError if folders of the job's lanes exist, unless an interrupted restore of this backup made
    them."""
    if _is_noted(due.lanes, due.backup):
        return
    if due.lanes.files(""):
        raise ConflictError(
            f"there are folders of job {due.backup.job!r} already, in {due.lanes.path.toString()}",
            "restore into another [storage] root, or move them away first; nothing was changed",
        )


def _streams_there(due: _Restore) -> tuple[set[str], ConflictError | None]:
    """Find the backup's streams that already exist here. Also return an error if such a stream isn't the one in the
    backup, or if it lacks records that the backup has. (Records can be missing because they were purged after the job
    had read them.)
    """
    there: set[str] = set()
    wrong: ConflictError | None = None
    for each in due.backup.streams:
        archive, place = due.systems.named(each.system).archive(), manifest.place_of(each.system)
        assert archive is not None
        last = [due.tree.read_bytes(f"{place}/{name}") for name in archive.last_entries(each.stream, each.cut)]
        try:
            if archive.is_there(each.stream, each.cut, last):
                there.add(each.stream)
        except ConflictError as error:
            there.add(each.stream)
            wrong = wrong or error
    return there, wrong


def _check_kept(due: _Restore, there: set[str]) -> None:
    """Raises ConflictError if retention has deleted records that the restored job must still read from an existing
    stream, unless the settings allow the loss of records."""
    systems = due.systems
    strict = {stream for stream in there if systems.on_data_loss(stream) == "fail"}
    starts = {
        each.stream: systems.named(each.system).starts(each.stream)
        for each in due.backup.streams
        if each.stream in strict
    }
    for each in due.backup.lanes if starts else ():
        lane = due.moment.lanes[each.lane]
        if not each.is_open:
            continue
        uri = f"{due.tree.path.toString()}/{manifest.LANES}/{lane.id}/{each.epoch}"
        folder = Folder(due.spark, uri, systems.streams_by_topic)
        read, first = folder.positions(), folder.starting()
        for ssp in (*lane.ssps, *lane.broadcast):
            start = starts.get(ssp.stream, {}).get(ssp.partition, 0)
            begin = first.get(str(ssp.whole), lane.begins.get(ssp.whole, start))  # if no batch was committed
            at = read.get(ssp.stream, {}).get(ssp.partition, begin)
            if at < start:
                raise ConflictError(
                    f"there is a stream {ssp.stream!r} here already, and the offsets {at} to {start - 1} of its "
                    f"partition {ssp.partition}, which lane {lane.id} must still read, were deleted from it",
                    "restore where that stream doesn't exist, or move it away first: the backup has these records; "
                    "nothing was changed",
                )


def _place_stream(due: _Restore, system: str, stream: str) -> None:
    archive = due.systems.named(system).archive()
    assert archive is not None
    own_files.make_folder(archive.folder)
    beside = archive.folder / f".restoring-{due.backup.id}"
    shutil.rmtree(beside, ignore_errors=True)
    own_files.make_folder(beside)
    place = manifest.place_of(system)
    source, target = due.tree.other(f"{due.tree.path.toString()}/{place}"), due.tree.other(f"file://{beside}")
    _copy_whole(source, target, _below(due.backup, f"{place}/{stream}/", len(place) + 1))
    archive.adopt(stream, beside)
    shutil.rmtree(beside, ignore_errors=True)


def _place_folders(due: _Restore) -> None:
    lanes, found = due.lanes, due.backup
    if lanes.local is not None:
        own_files.make_folder(lanes.local)
    lanes.write(_NOTE, encode(_Note(backup=found.id)).decode())
    for name in {each.lane for each in found.lanes}:
        lanes.clear(name)
    source = due.tree.other(f"{due.tree.path.toString()}/{manifest.LANES}")
    _copy_whole(source, lanes, _below(found, f"{manifest.LANES}/", len(manifest.LANES) + 1))
    for each in found.lanes:
        folder = Folder(due.spark, f"{due.job_settings.storage.root}/{found.job}/{each.lane}/{each.epoch}")
        folder.make()
        copying.relocate(folder)


def _below(found: Manifest, begin: str, cut: int) -> dict[str, FileSum]:
    """The files whose names start with ``begin``, by their names without the first ``cut`` characters."""
    return {name[cut:]: file for name, file in found.files.items() if name.startswith(begin)}


def _copy_whole(source: Tree, target: Tree, files: Mapping[str, FileSum]) -> None:
    """Copy files. Between a local disk and other storage, Hadoop's own checksum files are left out. Raises
    DamagedError if the checksum of a copy differs."""
    one_storage = (source.local is None) == (target.local is None)
    names = [name for name in files if one_storage or not _is_checksum(name)]
    copy_all(source, target, names)
    for name in names:
        if target.sha256(name, durable=True) != files[name].sha256:
            raise DamagedError(
                f"{target.path.toString()}/{name} isn't what the backup has, right after it was copied",
                "see what is wrong with that disk; then restore once more: nothing of the job is in the store yet",
            )


def _is_checksum(name: str) -> bool:
    """Whether a file is a checksum file that Hadoop makes when it copies to a local disk."""
    file = name.rpartition("/")[2]
    return file.startswith(".") and file.endswith(".crc")
