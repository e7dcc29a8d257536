"""Decides where a backup cuts through a running job, so that the copy looks as if the job had crashed at one moment.

Parts that were copied at different times fit together if no effect is copied without its cause. So for each lane there
must be a batch N for which both of these statements are true:

* The streams contain everything that the lane published before N, possibly some or all of N, and nothing from later
  batches. The lane's folder is taken back to N. If N is pending, it runs again; the streams record which parts of N
  they contain.
* The streams contain every record that the lane read up to and including N.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from anabranch.systems.archive import Publication

__all__ = ["Batch", "LaneCopy", "MovedOnError", "PartitionCopy", "Place", "noted", "settled"]

Place = tuple[str, int]
"""A stream, and the number of one of its partitions."""


class MovedOnError(Exception):
    """The job progressed too far while the copies were made. Another attempt can succeed."""


@dataclass(frozen=True)
class Batch:
    """The batch from which a lane continues."""

    number: int
    """The batch's number; -1 if the lane hasn't planned any batch."""
    pending: bool
    """Whether the batch must be run again."""


@dataclass(frozen=True)
class PartitionCopy:
    """A partition of a stream, from which the backup takes at least the records before ``end``."""

    end: int
    """The end offset that the partition had when the backup first noted it."""
    batches: Mapping[str, int]
    """The last batch that each lane published before ``end``, by lane."""
    later: Sequence[Publication]
    """The publications after ``end``, in order. The backup can include any number of them, counted from the first."""


@dataclass(frozen=True)
class LaneCopy:
    """A copy of a lane's folder. The copy was made after the ends of the partitions were noted.

    Args:
        planned: the last planned batch in the folder; -1 if there is none.
        committed: the last committed batch in the folder; -1 if there is none.
        outputs: the partitions in the backup that the lane writes.
        ends: returns a batch's end offsets in those partitions of the backup that the lane reads. Raises MovedOnError
            if the folder no longer has the batch.
        is_fixed: whether the lane also writes to outputs outside the backup. These outputs can't be taken back, so the
            lane's folder can't be taken back, either.
    """

    lane: str
    planned: int
    committed: int
    outputs: Sequence[Place]
    ends: Callable[[int], Mapping[Place, int]]
    is_fixed: bool = False

    @property
    def last(self) -> Batch:
        return Batch(max(self.planned, self.committed), self.planned > self.committed)


def settled(
    partitions: Mapping[Place, PartitionCopy], lanes: Iterable[LaneCopy]
) -> tuple[dict[Place, int], dict[str, Batch]]:
    """Determine what becomes part of the backup, and where each lane continues. Returns two dicts. The first maps
    each partition to a number: how many of its ``later`` publications, starting with the first, become part of the
    backup. The second maps each lane's id to the batch from which the lane continues.

    Raises:
        MovedOnError: the copies can't be made to fit together.
    """
    lanes = [*lanes]
    taken = dict.fromkeys(partitions, 0)
    while True:
        before = dict(taken)
        found = {lane.lane: _batch(lane, partitions, taken) for lane in lanes}
        if taken == before:
            return taken, found


def _batch(lane: LaneCopy, partitions: Mapping[Place, PartitionCopy], taken: dict[Place, int]) -> Batch:
    """The batch from which a lane continues, if the backup takes the first ``taken[place]`` of each partition's
    ``later`` publications. If this batch requires more publications, the function increases the counts in ``taken``,
    and the caller must call the function again for all lanes. Raises MovedOnError if the copies can't be made to fit
    together.
    """
    within = _last_within(lane, partitions, taken)
    if within > lane.planned:
        raise MovedOnError(f"batch {within} of lane {lane.lane} was published, and its folder is older")
    whole = max(within - 1, lane.planned if lane.is_fixed else -1)
    for place in lane.outputs:
        its = [number for number, each in enumerate(partitions[place].later, 1) if _is_of(each, lane, whole)]
        taken[place] = max(taken[place], *its) if its else taken[place]
    beyond = [
        each.batch
        for place in lane.outputs
        for each in partitions[place].later[taken[place] :]
        if each.lane == lane.lane
    ]
    first = min(beyond, default=lane.planned + 1)
    batch = lane.last if first > lane.planned else Batch(first, pending=True)
    for place, end in (lane.ends(batch.number) if batch.number >= 0 else {}).items():
        _take_up_to(end, place, partitions[place], taken)
    return batch


def _last_within(lane: LaneCopy, partitions: Mapping[Place, PartitionCopy], taken: Mapping[Place, int]) -> int:
    """The last of a lane's batches that have records in the backup; -1 if there is none."""
    found = [-1]
    for place in lane.outputs:
        partition = partitions[place]
        found.append(partition.batches.get(lane.lane, -1))
        found += [each.batch for each in partition.later[: taken[place]] if each.lane == lane.lane]
    return max(found)


def _is_of(publication: Publication, lane: LaneCopy, whole: int) -> bool:
    return publication.lane == lane.lane and publication.batch <= whole


def _take_up_to(end: int, place: Place, partition: PartitionCopy, taken: dict[Place, int]) -> None:
    """Make the backup include a partition's records before ``end``. Raises MovedOnError if ``partition`` doesn't list
    all of them."""
    count = taken[place]
    has = partition.later[count - 1].end if count else partition.end
    while has < end:
        if count == len(partition.later):
            raise MovedOnError(f"{place[0]}, partition {place[1]} was read up to {end}, and ended at {has} when copied")
        has = partition.later[count].end
        count += 1
    taken[place] = count


def noted(outputs: Mapping[str, Any], batch: Batch, ends: Mapping[str, Sequence[int]]) -> dict[str, Any]:
    """Correct a copied folder's notes about the ends of outputs, for a lane that continues from ``batch``. ``outputs``
    are the notes in the copy. These notes may be too new, because the lane may have written them while its folder was
    being copied. In the result, a stream's noted end offsets are at most the end offsets in ``ends``, and a table's
    noted batch is at most the last batch that is committed in the copy.
    """
    done = batch.number - batch.pending
    streams = {
        stream: {number: min(end, ends[stream][int(number)]) for number, end in partitions.items()}
        if stream in ends
        else partitions
        for stream, partitions in outputs.get("streams", {}).items()
    }
    tables = {table: min(last, done) for table, last in outputs.get("tables", {}).items() if done >= 0}
    return {"streams": streams, "tables": tables}
