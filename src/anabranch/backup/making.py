"""Makes a backup of a job, even while the job runs.

The steps, in this order:

1. read the job's rows from the store, and copy the lanes' folders for the first time (this can take a long time);
2. note the end offsets of the streams;
3. bring the copies of the folders up to date, beginning with the folders of downstream lanes;
4. decide where to cut, based on what was published since step 2 (:mod:`anabranch.backup.cut`); take the copied folders
   back to the batches from which their lanes continue, and copy the streams up to the cut;
5. read the store again. If more has changed than :meth:`~anabranch.backup.moment.Moment.is_followed_by` allows, for
   example because lanes were started or closed, start again with step 1.

The manifest, with the checksums of all files, is written last.
"""

from __future__ import annotations

import graphlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from typing import Any

import msgspec

from anabranch import crash_points, logs
from anabranch.backup import cut, manifest, rows, stream_files
from anabranch.backup.cut import Batch, LaneCopy, MovedOnError, PartitionCopy, Place
from anabranch.backup.manifest import Attempts, LaneFolder, Manifest, StreamFiles
from anabranch.backup.mirror import Mirror
from anabranch.backup.moment import Moment
from anabranch.backup.stream_files import Streams
from anabranch.config import Settings
from anabranch.container.checkpoint import copying, damage, soundness
from anabranch.container.checkpoint.filesystem import Tree
from anabranch.container.checkpoint.folder import Folder
from anabranch.container.checkpoint.soundness import Resumption
from anabranch.coordinator.store import Store
from anabranch.deadlines import wait_until
from anabranch.errors import ConflictError, StateError
from anabranch.model.deployment_state import DeploymentState
from anabranch.model.lane import Lane, LaneState
from anabranch.systems.archive import StreamCut
from anabranch.systems.systems import Systems

__all__ = ["Source", "make"]

_ATTEMPTS = 5
_PATIENCE = 60.0
_LOOK = 0.5

log = logs.get_logger()


@dataclass(frozen=True)
class Source:
    """The job to back up.

    Args:
        settings: the settings with which the job was started.
        now: returns the seconds since 1970.
    """

    spark: Any
    settings: Settings
    store: Store
    job: str
    now: Callable[[], float]

    def folder(self, lane: Lane, epoch: int) -> Folder:
        return self.at(f"{self.settings.storage.root}/{self.job}/{lane.id}/{epoch}")

    def at(self, uri: str) -> Folder:
        return Folder(self.spark, uri, Systems(self.settings, self.job).streams_by_topic)


@dataclass(frozen=True)
class _Copied:
    """A lane's folder, its ``copy`` in the backup, and the ``mirror`` that brings the copy up to date."""

    lane: Lane
    epoch: int
    mirror: Mirror
    copy: Folder

    @property
    def is_open(self) -> bool:
        return self.lane.state is not LaneState.CLOSED and self.epoch == self.lane.folder_epoch


def make(source: Source, uri: str) -> Manifest:
    """Make a backup in a folder that is empty, or in which a backup was interrupted.

    Raises:
        NotFoundError: there is no such job.
        ConflictError: the folder contains a complete backup or other files, or another process is making a backup
            there. This error is also raised if the job was reset, if something that prevents a backup (such as a
            change) took too long, or if the job progressed too far during each attempt.
        StateError: a lane's folder, or a file of a stream, is gone or damaged.
    """
    tree = Tree(source.spark, uri)
    with manifest.alone(tree) as attempts:
        return _made(source, tree, attempts)


def _made(source: Source, tree: Tree, attempts: Attempts) -> Manifest:
    for attempt in range(1, _ATTEMPTS + 1):
        moment = _settled(source)
        id = attempts.begin(source.job, source.now())
        crash_points.reach(crash_points.NOTED, source.job, 0)
        try:
            found = _copied(source, moment, tree, id)
        except MovedOnError as moved:
            log.warning("the job progressed too far while it was copied", why=str(moved), attempt=attempt)
            why = moved
            continue
        crash_points.reach(crash_points.COPIED, source.job, 0)
        manifest.finish(tree, found)
        crash_points.reach(crash_points.LISTED, source.job, 0)
        return found
    raise ConflictError(
        f"job {source.job!r} progressed too far while it was copied, {_ATTEMPTS} times: {why}",
        "stop it, and back it up while it is stopped; or, if its batches are short, let Spark keep more of them: "
        '[spark] conf "spark.sql.streaming.minBatchesToRetain"',
    )


def _settled(source: Source) -> Moment:
    """Wait until the job can be backed up, and return its rows and lanes at that moment. Raises ConflictError after
    ``_PATIENCE`` seconds, or if the job was reset."""
    last: list[str] = []

    def look() -> Moment | None:
        moment = Moment(source.job, source.store.export_job(source.job))
        last[:] = [moment.why_not()]
        return None if last[0] else moment

    return wait_until(look, _PATIENCE, lambda: _unsettled(source.job, last[0]), _LOOK)


def _unsettled(job: str, why: str) -> ConflictError:
    return ConflictError(
        f"job {job!r} can't be backed up: {why}, and this has been so for {_PATIENCE:.0f} s",
        f"wait until the job runs or is stopped: anabranch status {job}. If no process runs it, start it: it then "
        "finishes what is under way",
    )


def _copied(source: Source, moment: Moment, tree: Tree, id: str) -> Manifest:
    """Copy everything, and return a manifest with this ``id``. The manifest isn't written.

    Raises:
        MovedOnError: the job progressed too far.
        ConflictError: another process has begun a backup in the same folder.
        StateError: as in :func:`make`.
    """
    streams, elsewhere = _streams(source, moment)
    copies = [
        _Copied(lane, epoch, Mirror(folder.tree, copy.tree, copying.WHOLE), copy)
        for lane, epoch in moment.folders
        for folder, copy in [(_existing(source, lane, epoch), _place(source, tree, lane, epoch))]
    ]
    for each in copies:
        each.mirror.refresh()
    cuts = {stream: archive.cut(stream) for stream, (_, archive) in streams.items()}
    for each in _downstream_first(copies):
        each.mirror.refresh()
    new = [lane for lane in moment.taking_part if not lane.folder_epoch]
    ends, batches = _decided(source.job, copies, new, streams, cuts)
    for each in copies:
        if each.is_open:
            _take_back(each, batches[each.lane.id], ends, runs=moment.state is DeploymentState.RUNNING)
    lanes = tuple(
        LaneFolder(lane=each.lane.id, epoch=each.epoch, planned=each.copy.planned(), is_open=each.is_open)
        for each in copies
    )
    manifest.check_begun(tree, id)  # else the files of the other process would be mixed with more of this one's
    stream_files.copy(source.job, tree, streams, ends)
    if not moment.is_followed_by(Moment(source.job, source.store.export_job(source.job))):
        raise MovedOnError("lanes were started or closed")
    manifest.check_begun(tree, id)
    rows.keep(moment.rows, source.job, source.now(), tree)
    files = manifest.of_files(tree)
    manifest.check_lanes(tree, lanes, files)
    return Manifest(
        id=id,
        job=source.job,
        made_at=source.now(),
        anabranch=version("anabranch"),
        lanes=lanes,
        streams=tuple(StreamFiles(system=streams[each][0], stream=each, cut=ends[each]) for each in sorted(ends)),
        elsewhere=elsewhere,
        files=files,
    )


def _streams(source: Source, moment: Moment) -> tuple[Streams, tuple[str, ...]]:
    """The job's streams that become part of the backup, and the names of its other inputs and outputs."""
    systems = Systems(source.settings, source.job)
    homes: dict[str, str] = {}
    tables: set[str] = set()
    for lane in moment.taking_part:
        homes |= {ssp.stream: ssp.system for ssp in (*lane.ssps, *lane.broadcast)}
        tables |= {output for output in lane.outputs if systems.is_table(output)}
        homes |= {output: lane.system(output) for output in lane.outputs if not systems.is_table(output)}
    archives = {name: systems.named(name).archive() for name in set(homes.values())}
    found = {stream: (name, archive) for stream, name in homes.items() if (archive := archives[name]) is not None}
    others = {f"{name}/{stream}" for stream, name in homes.items() if stream not in found} | tables
    return found, tuple(sorted(others))


def _existing(source: Source, lane: Lane, epoch: int) -> Folder:
    folder = source.folder(lane, epoch)
    if not folder.exists():
        raise StateError(
            f"the folder of lane {lane.id} is gone: {folder.uri}",
            f"see what else is wrong: anabranch check {lane.job}; an older backup has that folder, if there is one",
        )
    return folder


def _place(source: Source, tree: Tree, lane: Lane, epoch: int) -> Folder:
    return source.at(f"{tree.path.toString()}/{manifest.LANES}/{lane.id}/{epoch}")


def _downstream_first(copies: Sequence[_Copied]) -> list[_Copied]:
    """The folders in the order in which they must be copied: a lane's folder comes before the folders of the lanes
    whose outputs the lane reads. As a result, the copy of a writer's folder knows every batch that the reader had
    read when the reader's folder was copied. If lanes form a cycle, the order stays as it is.
    """
    by_lane = {each.lane.id: each for each in copies}
    read = {each.lane.id: {ssp.stream for ssp in (*each.lane.ssps, *each.lane.broadcast)} for each in copies}
    graph = {
        writer.lane.id: {reader for reader in read if not read[reader].isdisjoint(writer.lane.outputs)}
        for writer in copies
    }
    try:
        return [by_lane[lane] for lane in graphlib.TopologicalSorter(graph).static_order()]
    except graphlib.CycleError:  # no such order exists, so the backup may take several attempts
        return [*copies]


def _decided(
    job: str, copies: Sequence[_Copied], new: Sequence[Lane], streams: Streams, cuts: Mapping[str, StreamCut]
) -> tuple[dict[str, StreamCut], dict[str, Batch]]:
    """Where the backup ends in each stream, and the batch from which each open lane continues. ``new`` lanes have no
    folder yet.

    Raises:
        MovedOnError: the copies don't fit together.
        DamagedError: a file of a stream is damaged or missing.
    """
    partitions = stream_files.partitions(job, streams, cuts)
    lanes = [_lane_copy(each, partitions) for each in copies if each.is_open]
    lanes += [LaneCopy(lane.id, -1, -1, _written(lane, partitions), lambda _: {}) for lane in new]
    taken, found = cut.settled(partitions, lanes)
    ends = {}
    for stream, before in cuts.items():
        entries, offsets = [*before.last], [*before.ends]
        for number in range(len(entries)):
            if count := taken[stream, number]:
                final = partitions[stream, number].later[count - 1]
                entries[number], offsets[number] = final.number, final.end
        ends[stream] = msgspec.structs.replace(before, last=tuple(entries), ends=tuple(offsets))
    for lane in lanes:
        _check_kept(lane, found[lane.lane], cuts)
    return ends, found


def _check_kept(lane: LaneCopy, batch: Batch, cuts: Mapping[str, StreamCut]) -> None:
    """Raises MovedOnError if the streams no longer keep records that a lane must still read."""
    if not any(cut.starts for cut in cuts.values()):
        return
    done = batch.number - 1 if batch.pending else batch.number
    for (stream, number), offset in (lane.ends(done) if done >= 0 else {}).items():
        starts = cuts[stream].starts
        if starts and offset < starts[number]:
            raise MovedOnError(
                f"lane {lane.lane} has read {stream}/{number} up to {offset}, and that now begins at {starts[number]}"
            )


def _lane_copy(copied: _Copied, partitions: Mapping[Place, PartitionCopy]) -> LaneCopy:
    lane, folder = copied.lane, copied.copy

    @cache
    def ends(batch: int) -> Mapping[Place, int]:
        if not folder.exists(f"offsets/{batch}"):
            raise MovedOnError(f"the folder of lane {lane.id} no longer has batch {batch}")
        entry = folder.entry(batch)
        found = {
            (stream, partition): offset
            for stream, number in entry.streams().items()
            for partition, offset in entry.positions(number).items()
        }
        return {place: offset for place, offset in found.items() if place in partitions}

    archived = {stream for stream, _ in partitions}
    return LaneCopy(
        lane=lane.id,
        planned=folder.planned(),
        committed=folder.committed(),
        outputs=_written(lane, partitions),
        ends=ends,
        is_fixed=not archived.issuperset(lane.outputs),
    )


def _written(lane: Lane, partitions: Iterable[Place]) -> list[Place]:
    return [place for place in partitions if place[0] in lane.outputs]


def _take_back(copied: _Copied, batch: Batch, cuts: Mapping[str, StreamCut], *, runs: bool) -> None:
    """Take the copy of a lane's folder back to a batch, and the copy's notes about outputs back to the cut. ``runs``
    says whether the job could write to the folder while it was being copied.

    Raises:
        MovedOnError: the copy is damaged, perhaps because the job wrote to the folder.
        StateError: the copy is damaged, although the job couldn't write to the folder.
    """
    folder = copied.copy
    if batch.number >= 0:
        folder.resume(Resumption(batch.number, batch.pending))
    folder.clear_leftovers(anew=False)
    if outputs := folder.outputs():
        folder.note_outputs(cut.noted(outputs, batch, {stream: each.ends for stream, each in cuts.items()}))
    faults = soundness.faults(damage.checkpoint(folder, copied.lane))
    if faults and not runs:
        raise damage.damaged(copied.lane, folder.uri, faults)
    if faults:
        raise MovedOnError(f"in the copy of lane {copied.lane.id}, {faults[0].name} {faults[0].problem}")
