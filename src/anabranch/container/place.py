"""Where a container's lanes run, and how a lane takes its folder there."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from anabranch.container.folder import Folder
from anabranch.errors import ConflictError, StateError
from anabranch.model.lane import Lane
from anabranch.systems.embedded import output as embedded
from anabranch.systems.kafka import output as kafka
from anabranch.systems.systems import Systems

__all__ = ["Place"]

_LOCK_PATIENCE = 60.0
_POLL = 0.1


@dataclass(frozen=True)
class Place:
    """The session, the storage root, a local folder for gates, and the systems."""

    spark: SparkSession
    root: str
    gates: Path
    systems: Systems

    def folder(self, lane: Lane, epoch: int, unless: Callable[[], bool]) -> Folder:
        """Take a lane's folder: a new one for a new lane, else the one it has, which must be there and agree, or a copy
        of that if it was abandoned.

        ``unless``: whether to wait no longer for a process that has it.
        """
        folder = self._at(lane, lane.folder_epoch or epoch)
        if lane.folder_epoch:
            if not folder.exists():
                raise StateError(
                    f"the folder of lane {lane.id} is gone: {folder.uri}",
                    "restore the storage root; without it the lane's positions and state are lost",
                )
            if not lane.abandoned:
                _lock(folder, unless)
            if self.systems.marks(lane):
                kafka.fence(self.systems.kafka, lane, epoch, new=False if folder.committed() >= 0 else None)
        published = self.published(lane)
        if not lane.folder_epoch:
            if published >= 0:
                raise StateError(
                    f"lane {lane.id} is new, but its outputs hold batch {published} of it",
                    "the store was set back: restore the newest copy of it",
                )
            folder.make()
        if published > folder.planned():
            raise StateError(
                f"the outputs of lane {lane.id} hold its batch {published}, but its folder {folder.uri} knows none "
                f"after {folder.planned()}",
                "restore the storage root; going on would write records twice",
            )
        if lane.folder_epoch and lane.abandoned:
            folder = folder.clone(self._at(lane, epoch).uri, self.spark)
        _lock(folder, unless)
        return folder

    def _at(self, lane: Lane, epoch: int) -> Folder:
        return Folder(self.spark, f"{self.root}/{lane.job}/{lane.id}/{epoch}", self.systems.streams_by_topic)

    def published(self, lane: Lane) -> int:
        """The last batch of which an output of a lane holds anything, -1 if none."""
        local = [stream for stream in lane.outputs if lane.system(stream) == "embedded"]
        found = embedded.published(self.systems.embedded, lane.id, local)
        return max(found, kafka.published(self.systems.kafka, lane)) if len(local) < len(lane.outputs) else found


def _lock(folder: Folder, unless: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _LOCK_PATIENCE
    while True:
        try:
            return folder.lock()
        except ConflictError:
            if time.monotonic() > deadline or unless():
                raise
            time.sleep(_POLL)
