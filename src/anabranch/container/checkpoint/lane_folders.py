"""Lanes' folders below the storage root, and how a lane gets its folder."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql import SparkSession

from anabranch.config.storage import local_folder
from anabranch.container import surroundings
from anabranch.container.checkpoint import copying, damage, edits
from anabranch.container.checkpoint.edits import NewStream
from anabranch.container.checkpoint.folder import Folder
from anabranch.container.error_text import Failure
from anabranch.deadlines import wait_until
from anabranch.errors import ConflictError, FencedError, StateError
from anabranch.event_time.progress import Progress
from anabranch.model.lane import Lane
from anabranch.planning.transition import inheritance
from anabranch.systems.systems import Systems

__all__ = ["LaneFolders"]

_LOCK_PATIENCE = 60.0
_POLL = 0.1


@dataclass(frozen=True)
class LaneFolders:
    """The folders of lanes. ``clocks`` is a local folder for the files with the lanes' event times."""

    spark: SparkSession
    root: str
    clocks: Path
    systems: Systems

    def folder(
        self, lane: Lane, epoch: int, unless: Callable[[], bool], checked: bool = False, ahead: bool = False
    ) -> Folder:
        """Take a lane's folder.

        A new lane gets a new folder or, if it takes over a predecessor's state, a copy of the predecessor's folder. Any
        other lane gets its existing folder or, if the former owner may still write to this folder (``lane.abandoned``),
        a copy of the folder. A copy that an earlier attempt in this process has made is replaced if :meth:`note_used`
        wasn't called for it. In the lane's existing folder, or the copy of it, leftovers of killed processes are
        removed, and damage is repaired if this neither loses nor repeats a record.

        Args:
            epoch: the lane's current epoch. A folder that is made now gets this epoch.
            unless: returns whether to stop waiting for a process that has the folder.
            checked: whether this process has taken over the outputs of a new lane, and found no batch of the lane in
                them.
            ahead: whether the lane's query has already been started in the folder. If so, the folder isn't emptied or
                repaired.

        Raises:
            StateError: the folder or the predecessor's folder is gone, damaged or out of date, or the outputs contain a
                later batch than the last one that was planned in the folder.
            ConflictError: another process has the folder, or may have it; or there already is a folder where a copy
                would be made.
        """
        folder = self.at(lane, lane.folder_epoch or epoch)
        if lane.folder_epoch:
            if not folder.exists():
                raise StateError(
                    f"the folder of lane {lane.id} is gone: {folder.uri}",
                    "restore the storage root; without it the lane's positions and state are lost",
                )
            if not lane.abandoned:
                _lock(folder, unless)
            new = False if lane.took_outputs(folder.committed()) else None
            self.systems.recover(lane, epoch, new=new)
            self.systems.fence_tables(lane, epoch, new=new, foreign=True)
        published = -1 if checked and not lane.folder_epoch else self.published(lane)
        if not lane.folder_epoch:
            self.check_new(lane, published)
            if _has_former_state(lane):
                folder = self._split(lane, folder)
            elif not ahead:
                folder.make()
                _lock(folder, unless)
                folder.begin_anew()  # perhaps a query was started ahead of the lane, by a process that has died
        if published > folder.planned():
            raise StateError(
                f"the outputs of lane {lane.id} hold its batch {published}, but its folder {folder.uri} knows none "
                f"after {folder.planned()}",
                "restore the storage root; going on would write records twice",
            )
        if lane.folder_epoch and lane.abandoned:
            folder = copying.clone(folder, self.at(lane, epoch).uri, again=True)
        _lock(folder, unless)
        parted = not lane.folder_epoch and _has_former_state(
            lane
        )  # a copy from a closed lane, which has no pending batch
        if not ahead:
            damage.mend(folder, lane, published)
        if not ahead and not (parted and folder.planned() >= 0):
            folder.clear_leftovers(anew=lane.first_batch == 0 and lane.last_batch < 0 and published < 0)
        return folder

    def note_used(self, folder: Folder) -> None:
        """Record that a lane uses ``folder``. If ``folder`` is a copy, no other copy replaces it from now on."""
        copying.note_used(folder)

    def explained(self, failed: Failure) -> Failure:
        """The failure to report for ``failed``. Unless the lane waits for disk space, this is ``failed`` itself.

        If the lane waits for disk space, the disks to which anabranch writes are checked, because most errors about a
        full disk don't name a file. If any is full, the result is ``failed`` with one more reason for each full disk.
        If none is full, the result is ``failed.unless_full``, or ``failed`` if that is None.
        """
        if failed.awaits != surroundings.DISK.name:
            return failed
        folders = (str(folder.path) for system in self.systems.all for folder in system.folders())
        root = local_folder(self.root)
        places = (*([] if root is None else [str(root)]), *folders, tempfile.gettempdir())
        full = surroundings.full_disks(places)
        if not full and failed.unless_full is not None:
            return failed.unless_full
        return replace(failed, reasons=(*failed.reasons, *full), unless_full=None)

    def check_new(self, lane: Lane, published: int) -> None:
        """Raise StateError if the outputs of a new lane already contain a batch of this lane. ``published`` is the last
        such batch, -1 if there is none."""
        if published >= 0:
            raise StateError(
                f"lane {lane.id} is new, but its outputs hold batch {published} of it",
                "the store is an older copy: restore the newest one",
            )

    def _split(self, lane: Lane, folder: Folder) -> Folder:
        """A copy of the predecessor's folder, adapted to the lane. Raises StateError if that folder is gone, or doesn't
        end with the batch before the lane's first batch."""
        parent, epoch = _parent(lane)
        kept: dict[str, list[int]] = {}
        for ssp in (*lane.ssps, *lane.broadcast):
            kept.setdefault(ssp.stream, []).append(ssp.partition)
        former = self.of(lane.job, parent, epoch)
        if not former.exists():
            raise StateError(
                f"the folder of lane {parent} is gone, and lane {lane.id} continues from it: {former.uri}",
                "restore the storage root; without it positions and state are lost",
            )
        added: dict[str, dict[int, int]] = {}
        for ssp in lane.fresh:
            first = self.systems.named(ssp.system).starts(ssp.stream)
            added.setdefault(ssp.stream, {})[ssp.partition] = first[ssp.partition]
        copy = copying.clone(former, folder.uri, kept, added, self._new_streams(lane), again=True)
        copy.clear_broken(former)
        if copy.pending or copy.planned() != lane.first_batch - 1:
            raise StateError(
                f"lane {parent} was closed after batch {lane.first_batch - 1}, but its folder {former.uri} says "
                f"{copy.committed()} of {copy.planned()}",
                "restore the storage root",
            )
        begins: dict[str, dict[int, int]] = {}
        for ssp, offset in lane.begins.items():
            begins.setdefault(ssp.stream, {})[ssp.partition] = offset
        if lane.rewind is not None and lane.rewind.to and copy.planned() >= 0:
            edits.rewind(copy, begins)
        if lane.drained is not None and copy.planned() >= 0:
            edits.rewind(copy, begins)
            edits.reset_time(copy, self.inherited(lane))
        return copy

    def _new_streams(self, lane: Lane) -> list[NewStream]:
        """The streams that match the lane's patterns, except the first stream of each pattern. Earlier lanes may have
        read some of these streams."""
        systems = {ssp.stream: ssp.system for ssp in lane.ssps}
        found = []
        for streams in lane.matched.values():
            for after, stream in itertools.pairwise(streams):
                system = self.systems.named(systems[stream])
                id = system.id(stream)
                found.append(NewStream(stream, id, after, system.offset(stream, id, {})))
        return found

    def inherited(self, lane: Lane) -> Progress:
        """The event time that a lane takes over. Raises StateError if the folder of a lane in ``inherits`` doesn't
        contain that lane's event time."""
        left = {name: self.of(lane.job, name, epoch).left() for name, epoch in lane.inherits.items()}
        return inheritance.inherited(lane, left)

    def clock(self, lane: Lane) -> Path:
        """The local file with a lane's event time."""
        return self.clocks / f"{lane.id}.clock"

    def at(self, lane: Lane, epoch: int) -> Folder:
        """The folder that a lane has, or would have, for an epoch."""
        return self.of(lane.job, lane.id, epoch)

    def of(self, job: str, lane: str, epoch: int) -> Folder:
        """The folder that a lane of a job has, or would have, for an epoch."""
        return Folder(self.spark, f"{self.root}/{job}/{lane}/{epoch}", self.systems.streams_by_topic)

    def withdrawn(self, lane: Lane, epoch: int, *, committed: int) -> int:
        """Withdraw a lane's right to write to its exactly-once output streams until the lane takes over its outputs
        again; see :meth:`anabranch.systems.contract.System.withdraw`. Call this only after the lane's query has ended.
        ``committed`` is the last batch that was committed in the lane's folder; -1 if there is none. Returns the last
        batch that, after the call, is at least partly in an exactly-once output or a table; -1 if there is no such
        batch.
        """
        return self.systems.withdraw(lane, epoch, new=False if lane.took_outputs(committed) else None)

    def seen(self, lane: Lane) -> int:
        """Like :meth:`published`, but for a running lane, and only for exactly-once output streams in which rows become
        visible before the driver publishes the batch; see :meth:`anabranch.systems.contract.System.seen`."""
        return self.systems.seen(lane)

    def published(self, lane: Lane) -> int:
        """The last batch of a lane of which at least a part is in an exactly-once output or a table; -1 if there is no
        such batch."""
        return self.systems.published(lane)


def _has_former_state(lane: Lane) -> bool:
    if lane.drained is not None:
        return bool(lane.drained.state)
    cleared = lane.afresh or (lane.rewind is not None and lane.rewind.clear)
    return lane.stateful and bool(lane.inherits) and not cleared


def _parent(lane: Lane) -> tuple[str, int]:
    if lane.drained is not None:
        return lane.drained.state, lane.inherits[lane.drained.state]
    ((parent, epoch),) = lane.inherits.items()
    return parent, epoch


def _lock(folder: Folder, unless: Callable[[], bool]) -> None:
    held: list[ConflictError] = []

    def look() -> bool | None:
        try:
            folder.lock(unless)
        except FencedError:
            raise
        except ConflictError as error:
            if unless():
                raise
            held[:] = [error]
            return None
        return True

    wait_until(look, _LOCK_PATIENCE, lambda: held[0], _POLL)
