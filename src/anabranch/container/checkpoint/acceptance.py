"""Lets a stopped lane continue with another stream of the same name, or with a stream that has lost its end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from anabranch import crash_points
from anabranch.container.checkpoint import copying, edits
from anabranch.container.checkpoint.folder import Folder
from anabranch.errors import ConflictError, StateError
from anabranch.model.lane import Lane, Position
from anabranch.model.ssp import SSP
from anabranch.planning.ownership import positions
from anabranch.systems.contract import System

__all__ = ["Acceptance", "continued", "look", "rewrite"]


@dataclass(frozen=True)
class Acceptance:
    """How a stopped lane would continue with a stream as it is now.

    Attributes:
        folder: the lane's folder or, if the lane hasn't one yet, that of a lane from which it continues.
        id: the stream's id.
        anew: whether it is another stream than the one that the lane has read, which was deleted.
        at: the lane's position in each partition of the stream.
        to: where the lane would continue instead.
        limits: the highest offset at which the lane may begin to read any part of a partition's keys.
    """

    lane: Lane
    folder: Folder
    stream: str
    id: str
    anew: bool
    at: Mapping[int, int]
    to: Mapping[int, int]
    limits: Mapping[int, int]


def look(folder: Folder, lane: Lane, stream: str, system: System) -> Acceptance | None:
    """Compare a lane's folder with a stream. Returns None if the lane can continue with the stream as it is, or doesn't
    read it.

    Before this, the folder is locked for this process, and leftovers are removed. Both are skipped if the folder is
    another lane's, or if the lane will continue in a copy of the folder (``lane.abandoned``).

    Raises:
        ConflictError: another process has the folder; or the stream has fewer partitions than the lane reads.
        NotFoundError: there is no such stream.
        StateError: the folder is gone.
    """
    if not folder.exists():
        raise StateError(f"the folder of lane {lane.id} is gone: {folder.uri}", "restore the storage root")
    if lane.folder_epoch and not lane.abandoned:
        folder.lock()
        folder.clear_leftovers(anew=False)
    known = _known_id(folder, stream)
    read = _read(lane, stream)
    if known is None and not read:
        return None
    id, ends, starts = system.id(stream), system.ends(stream), system.starts(stream)
    anew = known not in (None, id)
    at = _positions(folder, lane, stream) if lane.folder_epoch else _starting(lane, stream)
    lost = sorted(ssp.partition for ssp in read if ssp.partition not in ends)
    if lost:
        raise ConflictError(
            f"{system.name}/{stream} has {len(ends)} partition(s), and lane {lane.id} reads partition {lost[-1]}",
            f"create the stream with at least {lost[-1] + 1} partitions",
        )
    limits = {ssp.partition: (starts if anew else ends)[ssp.partition] for ssp in read}
    to = {partition: limits[partition] if anew else min(offset, limits[partition]) for partition, offset in at.items()}
    found = Acceptance(lane, folder, stream, id, anew, at, to, limits)
    return found if anew or to != at or continued(lane, found) != lane else None


def rewrite(found: Acceptance, target: str, published: int) -> None:
    """Make the lane's next folder: a copy that continues with the stream as it is now, with the same state.

    The original isn't changed, and nothing refers to the copy yet. If a batch is pending, it is forgotten, because the
    records that it was to read are gone.

    Args:
        target: the URI of the copy.
        published: the lane's last batch that is in an exactly-once output or a table, at least in part; -1 if none.

    Raises:
        ConflictError: the target exists, or another process is making it.
        StateError: a part of the pending batch is in an output, so the batch can be neither finished nor forgotten.
    """
    former = found.folder
    if former.pending and published >= former.planned():
        raise StateError(
            f"lane {found.lane.id} has written a part of batch {former.planned()}, and can't write the rest: the "
            f"records of {found.stream} that the batch reads are gone",
            f"restore the former stream; or, to start as a new job: anabranch reset {found.lane.job}",
        )
    copy = copying.clone(former, target)
    copy.take_back()
    copy.clear_broken(former)
    edits.adopt(copy, found.stream, found.id, found.to, anew=found.anew)
    if copy.planned() < 0:
        copy.change_starting({str(ssp): found.to[ssp.partition] for ssp in _read(found.lane, found.stream)})
    crash_points.reach(crash_points.REWRITTEN, found.lane.id, copy.planned())
    copying.note_used(copy)


def continued(lane: Lane, found: Acceptance) -> Lane:
    """A lane, as it is in the store now, with offsets that fit the stream. Otherwise, it would skip records whose
    offsets are lower than those at which it once began to read some keys.
    """

    def moved(position: Position) -> Position:
        ssp, limit = position.ssp, found.limits.get(position.ssp.partition)
        if ssp.stream != found.stream or limit is None:
            return position
        if found.anew:
            return Position(ssp=ssp, offset=limit)
        if ssp in lane.broadcast:
            return positions.all_at(position, lambda at: min(at, limit))
        return positions.lowered(position, lane.factor, limit)

    return msgspec.structs.replace(lane, starting=tuple(map(moved, lane.starting)), final=tuple(map(moved, lane.final)))


def _read(lane: Lane, stream: str) -> list[SSP]:
    return [*dict.fromkeys(ssp.whole for ssp in (*lane.ssps, *lane.broadcast) if ssp.stream == stream)]


def _known_id(folder: Folder, stream: str) -> str | None:
    """The id of the stream that the folder's lane has read; None if the folder doesn't say. A lane can have a source
    for a stream of which it reads no partition. In that case, only the source's offset has the id, in some systems.
    """
    last = folder.planned()
    source = folder.sources(last).get(stream) if last >= 0 else None
    noted = folder.stream_ids().get(stream)
    return noted if noted is not None or source is None else folder.entry(last).id(source)


def _positions(folder: Folder, lane: Lane, stream: str) -> dict[int, int]:
    """Where the lane is in each partition of a stream that it reads."""
    noted = folder.starting()
    known = {ssp.partition: noted.get(str(ssp), 0) for ssp in _read(lane, stream)}
    return {**known, **folder.positions().get(stream, {})}


def _starting(lane: Lane, stream: str) -> dict[int, int]:
    return {ssp.partition: offset for ssp, offset in lane.begins.items() if ssp.stream == stream}
