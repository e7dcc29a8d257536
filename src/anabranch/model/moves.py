"""Compares two job models, and finds the buckets whose seats differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from anabranch.errors import UsageError
from anabranch.model.document import Document
from anabranch.model.job_model import JobModel, StageModel
from anabranch.model.names import parse

__all__ = ["StageMoves", "compared"]

_NOWHERE = -1


class StageMoves(Document, frozen=True, kw_only=True):
    """A stage before and after a change. ``cells`` and ``moves`` refer to ``partitions`` and ``seats`` by index."""

    stage: str
    buckets: int
    """The number of buckets per partition at the higher of the two factors."""
    seats: tuple[str, ...]
    """The seats of both models. Those of the later model come first."""
    racks: tuple[str | None, ...]
    """The rack of each seat."""
    partitions: tuple[str, ...]
    """The names of the tasks at factor 1."""
    cells: tuple[tuple[int, int, int], ...]
    """Triples of a partition, a seat, and how many of the partition's buckets the seat has afterwards."""
    moves: tuple[tuple[int, int, int, int], ...]
    """For each move: the partition, the former seat, the new seat, and how many buckets move. A seat of -1 means that
    the partition didn't exist before, or no longer exists.
    """


def compared(before: JobModel, after: JobModel) -> tuple[StageMoves, ...]:
    """For each stage of the later model, the seats of its buckets, and the buckets that have moved to another seat.
    This takes time in proportion to the number of buckets.
    """
    known = {seat.seat: seat.rack for model in (before, after) for seat in model.containers}
    seats = tuple(dict.fromkeys(seat.seat for model in (after, before) for seat in model.containers))
    places = {seat: place for place, seat in enumerate(seats)}
    former, later = before.seats_of_tasks(), after.seats_of_tasks()
    return tuple(
        _stage(stage, former.get(stage.stage, {}), later[stage.stage], places, tuple(known[seat] for seat in seats))
        for stage in after.stages
    )


def _stage(
    stage: StageModel,
    former: Mapping[str, str],
    later: Mapping[str, str],
    places: Mapping[str, int],
    racks: tuple[str | None, ...],
) -> StageMoves:
    was, now = _by_partition(former, places), _by_partition(later, places)
    in_order = (_parts(task.name)[0] for task in stage.tasks)
    partitions = tuple(dict.fromkeys((*in_order, *now, *was)))
    buckets = max((len(owners) for owners in (*was.values(), *now.values())), default=1)
    cells: list[tuple[int, int, int]] = []
    moves: list[tuple[int, int, int, int]] = []
    for number, partition in enumerate(partitions):
        old, new = _owners(was, partition, buckets), _owners(now, partition, buckets)
        cells += [(number, seat, count) for seat, count in sorted(Counter(new).items()) if seat != _NOWHERE]
        pairs = Counter(pair for pair in zip(old, new, strict=True) if pair[0] != pair[1])
        moves += [(number, source, target, count) for (source, target), count in sorted(pairs.items())]
    return StageMoves(
        stage=stage.stage,
        buckets=buckets,
        seats=tuple(places),
        racks=racks,
        partitions=partitions,
        cells=tuple(cells),
        moves=tuple(moves),
    )


def _by_partition(seats_of_tasks: Mapping[str, str], places: Mapping[str, int]) -> dict[str, list[int]]:
    """For each partition, the seats of its buckets. A seat is given as an index into ``places``."""
    owners: dict[str, list[int]] = {}
    for task, seat in seats_of_tasks.items():
        partition, bucket, factor = _parts(task)
        owners.setdefault(partition, [_NOWHERE] * factor)[bucket] = places[seat]
    return owners


def _parts(task: str) -> tuple[str, int, int]:
    try:
        name = parse(task)
    except UsageError:  # a name from a user's own grouper
        return task, 0, 1
    return str(name.base), name.bucket % name.factor, name.factor


def _owners(known: Mapping[str, list[int]], partition: str, buckets: int) -> list[int]:
    """The seat of each of ``buckets`` buckets of a partition. If the model divides the partition into only m buckets,
    the seat of its bucket n also gets the buckets n + m, n + 2m, …"""
    owners = known.get(partition, [_NOWHERE])
    return owners * (buckets // len(owners))
