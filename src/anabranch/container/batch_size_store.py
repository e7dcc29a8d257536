"""Stores how large a lane's batches can be, so that later processes and lanes can choose a size for their first batch.
The files are next to the folders of the job's lanes.

The stored sizes only save time, so a damaged file is treated as missing, and a failure to write is ignored.
"""

from __future__ import annotations

import json
from time import monotonic

from anabranch import logs
from anabranch.container.checkpoint.filesystem import Tree
from anabranch.container.checkpoint.lane_folders import LaneFolders
from anabranch.model.lane import Lane
from anabranch.pace import stored_sizes
from anabranch.pace.stored_sizes import StoredSize

__all__ = ["BatchSizeStore", "remembered"]

log = logs.get_logger()

_FOLDER = "speeds"
_EVERY = 5.0
_OTHER = 1.5
"""A new size is written only if it differs from the last written size by at least this factor."""
_unwritten: dict[tuple[str, str, str], dict[int, StoredSize]] = {}
"""Batch sizes that differ enough from the last written ones, but haven't been written yet; by storage root,
job and file."""


class BatchSizeStore:
    """Stores the batch sizes of a lane. All lanes of a stage and group share a file, which contains the last written
    size for each factor."""

    def __init__(self, lane_folders: LaneFolders, lane: Lane) -> None:
        self._lane_folders = lane_folders
        self._lane = lane
        self._rows = 0
        self._noted = monotonic()

    def note(self, rows: int, *, ends: bool = False) -> None:
        """Record that a batch of the lane can have up to ``rows`` records. Storage errors are ignored.

        A size that is close to the last written one is ignored. Any other size is written, but at most once every few
        seconds, and not within the first few seconds of this object's life. A size that isn't written is known only to
        lanes of this process, and only until the next call replaces it.

        Args:
            ends: whether the lane is ending. If so, this is the lane's last call, and the size is written without
                delay.
        """
        key, size = _key(self._lane_folders, self._lane), {self._lane.factor: StoredSize(rows, _partitions(self._lane))}
        low, high = sorted((rows, self._rows))
        if high >= low * _OTHER and not ends and monotonic() < self._noted + _EVERY:
            _unwritten[key] = size
            return
        _unwritten.pop(key, None)
        if high < low * _OTHER:
            return
        self._rows, self._noted = rows, monotonic()
        try:
            tree = _tree(self._lane_folders, self._lane)
            known = _read(tree, self._lane) | size
            tree.fs.mkdirs(tree.path)
            tree.write(_name(self._lane), json.dumps(stored_sizes.to_builtins(known)))
        except Exception as error:
            log.debug("the speed of a lane can't be stored", lane=self._lane.id, error=str(error))


def remembered(lane_folders: LaneFolders, lane: Lane, *, quick: bool) -> int:
    """The size for a lane's first batch, derived from the sizes that lanes have stored. The result is 0 if no size is
    stored, or if the stored sizes can't be read. For ``quick``, see :func:`anabranch.pace.stored_sizes.first`.
    """
    try:
        known = _read(_tree(lane_folders, lane), lane) | _unwritten.get(_key(lane_folders, lane), {})
        return stored_sizes.first(known, lane.factor, _partitions(lane), quick=quick)
    except Exception as error:
        log.debug("the speed of a lane can't be looked up", lane=lane.id, error=str(error))
        return 0


def _tree(lane_folders: LaneFolders, lane: Lane) -> Tree:
    return Tree(lane_folders.spark, f"{lane_folders.root}/{lane.job}/{_FOLDER}")


def _read(tree: Tree, lane: Lane) -> dict[int, StoredSize]:
    name = _name(lane)
    if not tree.has(name):
        return {}
    try:
        return stored_sizes.from_builtins(json.loads(tree.read(name)))
    except ValueError as error:
        log.debug("the stored speeds of lanes can't be read", lane=lane.id, error=str(error))
        return {}


def _key(lane_folders: LaneFolders, lane: Lane) -> tuple[str, str, str]:
    return lane_folders.root, lane.job, _name(lane)


def _name(lane: Lane) -> str:
    return f"{lane.stage}-{lane.group}.json"


def _partitions(lane: Lane) -> int:
    return max(1, len({ssp.whole for ssp in lane.ssps}))
