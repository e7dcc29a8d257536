"""Lets a stopped lane continue with another stream of the same name, or with a stream whose last records are gone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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

__all__ = ["Acceptance", "StreamNow", "check_published", "continued", "look", "rewrite"]


@dataclass(frozen=True)
class StreamNow:
    """A stream as it is now: its system, name and id, and each partition's oldest offset and end offset."""

    system: str
    name: str
    id: str
    starts: Mapping[int, int]
    ends: Mapping[int, int]

    @classmethod
    def of(cls, system: System, name: str) -> StreamNow:
        """Raises NotFoundError if there is no such stream."""
        return cls(system.name, name, system.id(name), system.starts(name), system.ends(name))


@dataclass(frozen=True)
class Acceptance:
    """How a stopped lane would continue with a stream as it is now.

    Attributes:
        folder: the lane's folder; None if the lane has no folder yet.
        former: the folders of the lane's predecessors that have read the stream, if the folders still exist.
        id: the stream's id.
        anew: whether the stream that the lane has read was deleted, and ``stream`` is another one of the same name.
        at: the lane's position in each partition of the stream.
        to: for each of these partitions, the offset at which the lane would continue instead.
        limits: for each partition, the highest offset at which the lane may start to read any of the partition's keys.
    """

    lane: Lane
    folder: Folder | None
    former: Sequence[Folder]
    stream: str
    id: str
    anew: bool
    at: Mapping[int, int]
    to: Mapping[int, int]
    limits: Mapping[int, int]


def look(folder: Folder | None, former: Sequence[Folder], lane: Lane, now: StreamNow) -> Acceptance | None:
    """Find out how a stopped lane could continue with a stream as it is now. Returns None if the lane can continue
    without a change, or if the lane doesn't read the stream.

    First, the lane's folder is locked for this process, and leftovers are removed from the folder. Both steps are
    skipped if the lane will continue in a copy of the folder (``lane.abandoned``).

    Args:
        folder: the lane's folder; None if the lane has no folder yet.
        former: the folders of the lane's predecessors.

    Raises:
        ConflictError: another process has the folder; the stream has fewer partitions than the lane reads; or the lane
            is stateful, but has no folder yet.
        StateError: the folder is gone.
    """
    stream = now.name
    if folder is not None:
        if not folder.exists():
            raise StateError(f"the folder of lane {lane.id} is gone: {folder.uri}", "restore the storage root")
        if not lane.abandoned:
            folder.lock()
            folder.clear_leftovers(anew=False)
    former = [each for each in former if each.exists() and stream in each.stream_ids()]
    known, read = _known_id(folder, former, stream), _read(lane, stream)
    if (known is None and not read) or (folder is None and not lane.starting):
        return None
    anew = known not in (None, now.id)
    lost = sorted(ssp.partition for ssp in read if ssp.partition not in now.ends)
    if lost:
        raise ConflictError(
            f"{now.system}/{stream} has {len(now.ends)} partition(s), and lane {lane.id} reads partition {lost[-1]}",
            f"create the stream with at least {lost[-1] + 1} partitions",
        )
    at = _positions(folder, lane, stream)
    limits = {ssp.partition: (now.starts if anew else now.ends)[ssp.partition] for ssp in read}
    to = {partition: limits[partition] if anew else min(offset, limits[partition]) for partition, offset in at.items()}
    found = Acceptance(lane, folder, former, stream, now.id, anew, at, to, limits)
    if not (anew or to != at or _plans_beyond(folder, stream, limits) or continued(lane, found) != lane):
        return None
    if folder is None and lane.stateful:
        raise ConflictError(
            f"lane {lane.id} of job {lane.job!r} has no folder yet, and takes its state from a closed lane",
            f"restore the former stream, and start the job; or, to start as a new job: anabranch reset {lane.job}",
        )
    return found


def check_published(found: Acceptance, published: int) -> None:
    """Raise StateError if a part of the lane's pending batch is in an output. ``published`` is as for
    :func:`rewrite`."""
    former = found.folder
    if former is not None and former.pending and published >= former.planned():
        raise StateError(
            f"lane {found.lane.id} has written a part of batch {former.planned()}, and can't write the rest: the "
            f"records of {found.stream} that the batch reads are gone",
            f"restore the former stream; or, to start as a new job: anabranch reset {found.lane.job}",
        )


def rewrite(found: Acceptance, target: str, published: int) -> None:
    """Make the lane's next folder: a copy of the present folder, with the same state. From this copy, the lane can
    continue with the stream as it is now.

    The original isn't changed, and nothing refers to the copy yet. A pending batch is forgotten, because its records
    are gone.

    Args:
        target: the URI of the copy.
        published: the last batch of the lane of which at least a part is in an exactly-once output or a table; -1 if
            there is no such batch.

    Raises:
        ConflictError: the target exists, or another process is making it.
        StateError: a part of the pending batch is in an output, so the batch can be neither finished nor forgotten.
    """
    former = found.folder
    assert former is not None
    check_published(found, published)
    copy = copying.clone(former, target)
    copy.take_back()
    copy.clear_broken(former)
    edits.adopt(copy, found.stream, found.id, found.to, anew=found.anew)
    copy.change_starting({str(ssp): found.to[ssp.partition] for ssp in _read(found.lane, found.stream)})
    crash_points.reach(crash_points.REWRITTEN, found.lane.id, copy.planned())
    copying.note_used(copy)


def continued(lane: Lane, found: Acceptance) -> Lane:
    """The lane with its start and final offsets adjusted to the stream. ``lane`` is the lane as it is in the store now.
    For some keys, the lane may have started to read at a high offset of the former stream. Without the adjustment, the
    lane would skip all records with these keys that have lower offsets."""

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


def _known_id(folder: Folder | None, former: Sequence[Folder], stream: str) -> str | None:
    """The id of the stream that a lane has read; None if no folder contains an id. If the lane has planned no batch,
    ids in its predecessors' folders take precedence, because the lane's own folder may contain the id of a different
    stream with the same name.

    A lane can have a source for a stream of which it reads no partition. In some systems, the id of such a stream is
    only in the source's offset.
    """
    own = None
    if folder is not None:
        last = folder.planned()
        source = folder.sources(last).get(stream) if last >= 0 else None
        own = folder.stream_ids().get(stream) or (None if source is None else folder.entry(last).id(source))
        if own is not None and last >= 0:
            return own
    return next((each.stream_ids()[stream] for each in former), own)


def _positions(folder: Folder | None, lane: Lane, stream: str) -> dict[int, int]:
    """The lane's position in each partition of ``stream`` that the lane reads."""
    begins = {ssp: offset for ssp, offset in lane.begins.items() if ssp.stream == stream}
    if folder is None:
        return {ssp.partition: offset for ssp, offset in begins.items()}
    noted = folder.starting()
    known = {ssp.partition: noted.get(str(ssp), begins.get(ssp, 0)) for ssp in _read(lane, stream)}
    return {**known, **folder.positions().get(stream, {})}


def _plans_beyond(folder: Folder | None, stream: str, limits: Mapping[int, int]) -> bool:
    """Whether the lane's pending batch, if there is one, ends after the end of the stream."""
    if folder is None or not folder.pending:
        return False
    planned = folder.planned_positions(folder.planned()).get(stream, {})
    return any(offset > limits.get(partition, offset) for partition, offset in planned.items())
