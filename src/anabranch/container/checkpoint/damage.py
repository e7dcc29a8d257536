"""Checks and repairs a lane's folder before Spark reads it. An incomplete batch is forgotten or run again if this
neither loses nor repeats a record. Otherwise, the lane fails permanently, with a message that names a damaged file and
the cost of each remedy.
"""

from __future__ import annotations

from collections.abc import Sequence

from anabranch import logs
from anabranch.container.checkpoint import checksums, soundness
from anabranch.container.checkpoint.folder import Folder
from anabranch.container.checkpoint.soundness import Checkpoint, Fault, Resumption
from anabranch.errors import DamagedError
from anabranch.model.lane import Lane
from anabranch.spark.query import lost_ends

__all__ = ["check", "checkpoint", "damaged", "mend", "repair"]

log = logs.get_logger()


def checkpoint(folder: Folder, lane: Lane, *, thorough: bool = False) -> Checkpoint:
    """The files that a lane's folder contains now."""
    partitions = lane.state_partitions if lane.stateful else 0
    return folder.checkpoint(partitions, thorough=thorough, least=soundness.least(lane))


def check(folder: Folder, lane: Lane) -> None:
    """Raise DamagedError if a lane can't continue from its folder as it is. Call this only if no query is running in
    the folder."""
    faults = soundness.faults(checkpoint(folder, lane))
    if faults:
        raise damaged(lane, folder.uri, faults)


def mend(folder: Folder, lane: Lane, published: int) -> Resumption | None:
    """Repair a lane's folder if its most recent batches are incomplete, for example after a power cut. After the
    repair, the lane continues from the last batch from which it can do so without losing or repeating a record (see
    :func:`soundness.resumption`). Unusable snapshots of the state are removed if the state can be built from older
    files. Unusable files that say where the query begins are removed if the lane's start offsets say the same. If the
    query's id is unreadable, the query gets a new id. The pending batch is forgotten if it was planned after an input
    had lost records that the lane had already read. Call this only if no query is running in the folder.

    Returns where the lane continues; None if no batch was incomplete.

    Args:
        published: the last batch of which at least a part is in an exactly-once output or a table; -1 if there is no
            such batch.

    Raises:
        DamagedError: files are damaged, and forgetting batches would lose or repeat records. The folder wasn't changed.
    """
    files = checkpoint(folder, lane)
    faults = soundness.faults(files)
    resumed = soundness.resumption(files, lane.first_batch, published) if faults else None
    if resumed is not None:
        log.warning(
            "a lane's folder has incomplete batches, which count as not written",
            lane=lane.id,
            faults=[f"{folder.uri}/{fault.name} {fault.problem}" for fault in faults],
            last=resumed.batch,
            runs_again=resumed.pending,
        )
        folder.resume(resumed)
        files = checkpoint(folder, lane)
    elif faults:
        raise damaged(lane, folder.uri, faults)
    _remove_useless(folder, lane, files)
    folder.mend_metadata()
    if files.planned > max(files.committed, published):
        _forget_backward(folder, lane)
    return resumed


def repair(folder: Folder, lane: Lane, resumed: Resumption | None) -> None:
    """Repair a lane's folder after a check has found that this is possible. ``resumed`` is the check's result; see
    :func:`review.of_lane`."""
    if resumed is not None:
        folder.resume(resumed)
    files = checkpoint(folder, lane, thorough=True)
    if not soundness.faults(files):
        _remove_useless(folder, lane, files)
    folder.mend_metadata()


def _forget_backward(folder: Folder, lane: Lane) -> None:
    """Forget the pending batch if its end offset in any partition is below its start; see :mod:`lost_ends`. Spark could
    never run the batch, not even after the partition has grown or has been restored. Whether the lane can continue
    without the batch is for :meth:`Inputs.check <anabranch.container.inputs.Inputs.check>` to decide."""
    lost = lost_ends.of_batch(folder.batch(folder.planned()), lane, folder.starting())
    if lost is not None:
        log.warning("a batch that can't be run is forgotten", lane=lane.id, error=lost.what)
        folder.take_back()


def _remove_useless(folder: Folder, lane: Lane, files: Checkpoint) -> None:
    """Remove unusable files that the lane can do without: snapshots of the state, so Spark builds the state from older
    files, and files that say where the query begins, so it begins at the lane's start offsets."""
    snapshot = "a snapshot of a lane's state is unusable, so the state is built from older files"
    begin = "the file that says where a lane's query begins is unusable, so the lane's start offsets are used"
    useless = [(snapshot, *each) for each in files.useless_snapshots()]
    useless += [(begin, *each) for each in files.useless_begins()]
    for warning, name, fault in useless:
        log.warning(warning, lane=lane.id, fault=f"{folder.uri}/{fault.name} {fault.problem}")
        folder.tree.remove(name, durable=True)  # first, because without a checksum it could count as usable
        folder.tree.remove(checksums.name_of(name))


def damaged(lane: Lane, uri: str, faults: Sequence[Fault]) -> DamagedError:
    """The error for files without which a lane can't continue."""
    first, *others = faults
    more = f"; so are {len(others)} more of its files" if others else ""
    state = "its state and its positions" if lane.stateful else "its positions"
    return DamagedError(
        f"{uri}/{first.name} {first.problem}: it contains {first.role}, and lane {lane.id} can't continue without it"
        f"{more}",
        f"restore that file, or the whole folder {uri}, from a backup: with the newest one nothing is lost, and an "
        "older one is refused if outputs hold later batches\n  "
        f"without a backup {state} are lost: after `anabranch reset {lane.job}` the job reads its inputs from their "
        f"beginning{', with no state' if lane.stateful else ''}, and writes its outputs once more\n  "
        f"list everything that is wrong with `anabranch check {lane.job}`; "
        "nothing was changed, and there is no need to delete anything",
    )
