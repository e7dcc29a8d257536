"""Lets a stopped lane continue with another stream of the same name, or with a stream that has lost its end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from anabranch import crash_points
from anabranch.container.checkpoint import copying, edits
from anabranch.container.checkpoint.folder import Folder
from anabranch.errors import ConflictError, StateError
from anabranch.model.lane import Lane
from anabranch.model.ssp import SSP
from anabranch.systems.contract import System

__all__ = ["Acceptance", "continued", "look", "rewrite"]


@dataclass(frozen=True)
class Acceptance:
    """How a stopped lane would continue with a stream as it is now.

    Attributes:
        id: the stream's id.
        anew: whether it is another stream than the one that the lane has read, which was deleted.
        at: the lane's position in each partition of the stream.
        to: where the lane would continue instead.
    """

    lane: Lane
    folder: Folder
    stream: str
    id: str
    anew: bool
    at: Mapping[int, int]
    to: Mapping[int, int]


def look(folder: Folder, lane: Lane, stream: str, system: System) -> Acceptance | None:
    """Compare a lane's folder with a stream. Returns None if the lane can continue with the stream as it is.

    Before this, the folder is locked for this process, and leftovers are removed. Both are skipped if the lane will
    continue in a copy of the folder (``lane.abandoned``).

    Raises:
        ConflictError: another process has the folder; or the stream has fewer partitions than the lane reads.
        NotFoundError: there is no such stream.
        StateError: the folder is gone.
    """
    if not folder.exists():
        raise StateError(f"the folder of lane {lane.id} is gone: {folder.uri}", "restore the storage root")
    if not lane.abandoned:
        folder.lock()
        folder.clear_leftovers(anew=False)
    id, ends, starts = system.id(stream), system.high_watermarks(stream), system.starts(stream)
    at = _positions(folder, lane, stream)
    lost = [partition for partition in at if partition not in ends]
    if lost:
        raise ConflictError(
            f"stream {system.name}/{stream} has {len(ends)} partition(s), and lane {lane.id} reads partition {lost[0]}",
            f"create the stream with at least {max(lost) + 1} partitions",
        )
    anew = folder.stream_ids().get(stream, id) != id
    to = {partition: starts[partition] if anew else min(offset, ends[partition]) for partition, offset in at.items()}
    return Acceptance(lane, folder, stream, id, anew, at, to) if anew or to != at else None


def rewrite(found: Acceptance, target: str, published: int) -> None:
    """Make the lane's next folder: a copy that continues with the stream as it is now, with the same state.

    The original isn't changed, and nothing refers to the copy yet. If a batch is pending, it is forgotten, because the
    records that it was to read are gone.

    Args:
        target: the URI of the copy.
        published: the lane's last batch that is in an output, at least in part; -1 if none.

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
    edits.adopt(copy, found.stream, found.id, found.to)
    if copy.planned() < 0:
        copy.change_starting({str(ssp): found.to[ssp.partition] for ssp in _read(found.lane, found.stream)})
    crash_points.reach(crash_points.REWRITTEN, found.lane.id, copy.planned())
    copying.note_used(copy)


def continued(lane: Lane, found: Acceptance) -> Lane:
    """A lane, as it is in the store now, with the start offsets that fit its next folder. Otherwise, it would skip
    records of the stream whose offsets are lower than those at which it once began.
    """
    starting = tuple(
        msgspec.structs.replace(position, offset=min(position.offset, found.to[position.ssp.partition]))
        if position.ssp.stream == found.stream
        else position
        for position in lane.starting
    )
    return msgspec.structs.replace(lane, starting=starting)


def _read(lane: Lane, stream: str) -> list[SSP]:
    return [*dict.fromkeys(ssp.whole for ssp in (*lane.ssps, *lane.broadcast) if ssp.stream == stream)]


def _positions(folder: Folder, lane: Lane, stream: str) -> dict[int, int]:
    """Where the lane is in each partition of a stream that it reads."""
    noted = folder.starting()
    known = {ssp.partition: noted.get(str(ssp), 0) for ssp in _read(lane, stream)}
    return {**known, **folder.positions().get(stream, {})}
