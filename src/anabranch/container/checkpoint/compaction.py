"""Copies the folder of a stopped lane, but leaves out foreign state, which belongs to tasks of other lanes."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import SparkSession

from anabranch import crash_points
from anabranch.container.checkpoint import copying
from anabranch.container.checkpoint.folder import Folder
from anabranch.errors import StateError
from anabranch.model.lane import Lane
from anabranch.spark.internals import state_rewrite
from anabranch.spark.query import state
from anabranch.spark.query.state import StateSize

__all__ = ["StoredState", "look", "rewrite"]


@dataclass(frozen=True)
class StoredState:
    """A stopped lane's folder after its last batch. ``keys`` is the number of columns of the lane's stage key."""

    lane: Lane
    folder: Folder
    batch: int
    keys: int
    size: StateSize


def look(spark: SparkSession, lane: Lane, uri: str, keys: int) -> StoredState:
    """Read the folder of a stopped lane.

    Before the folder is read, it is locked for this process, and leftovers are removed. Both steps are skipped if the
    lane will continue in a copy of the folder (``lane.abandoned``).

    Args:
        uri: the URI of the folder.
        keys: the number of columns of the lane's stage key.

    Raises:
        ConflictError: another process has the folder.
        StateError: the folder is gone, or has a pending batch.
    """
    folder = Folder(spark, uri)
    if not folder.exists():
        raise StateError(f"the folder of lane {lane.id} is gone: {uri}", "restore the storage root")
    if not lane.abandoned:
        folder.lock()
        folder.clear_leftovers(anew=False)
    if folder.pending:
        raise StateError(
            f"lane {lane.id} has started batch {folder.planned()}, and hasn't finished it",
            f"start job {lane.job!r}, and stop it once it runs",
        )
    batch = folder.committed()
    size = state.size_of(spark, lane, uri, batch, keys) if batch >= 0 else StateSize(0, 0, 0, 0)
    return StoredState(lane, folder, batch, keys, size)


def rewrite(spark: SparkSession, found: StoredState, target: str) -> StateSize:
    """Copy a lane's folder without its foreign state, which belongs to tasks of other lanes. Returns the size of the
    copy's state.

    The original isn't changed, and nothing refers to the copy yet.

    Args:
        found: the folder to copy.
        target: the URI of the copy.

    Raises:
        ConflictError: the target exists, or another process is making it.
        StateError: the copy didn't contain the expected state, and was removed.
    """
    lane, batch, keys = found.lane, found.batch, found.keys
    made = copying.bare(found.folder, target)
    state_rewrite.rewrite(
        spark,
        found.folder.uri,
        made.uri,
        batch,
        lane.state_partitions,
        lambda rows: rows.where(state.own(lane, rows, keys)),
    )
    before, after = found.size, state.size_of(spark, lane, made.uri, batch, keys)
    if after != StateSize(before.rows - before.foreign_rows, before.bytes - before.foreign_bytes, 0, 0):
        made.remove()
        raise StateError(
            f"the state of lane {lane.id} was not compacted correctly: {before} became {after}",
            "the job is as it was; this is a bug in anabranch",
        )
    made.tree.sync()  # Spark doesn't, and the original is about to be deleted
    crash_points.reach(crash_points.REWRITTEN, lane.id, batch)
    return after
