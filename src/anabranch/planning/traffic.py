"""Determines how many partitions the lanes of a job read from each rack."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Protocol

from anabranch.model.ssp import SSP, wholes
from anabranch.model.traffic import Traffic
from anabranch.planning.assignment.assignor import Where

__all__ = ["Reading", "of"]


class Reading(Protocol):
    """What a lane reads, and in which seat. Lanes and planned lanes have this form."""

    @property
    def seat(self) -> str: ...

    @property
    def ssps(self) -> tuple[SSP, ...]: ...

    @property
    def broadcast(self) -> tuple[SSP, ...]: ...


def of(lanes: Iterable[Reading], where: Where) -> Traffic | None:
    """How many partitions are read, by the rack of the reading lane and by the rack from which the lane reads.
    The result is None if no stream's racks are known, if the rack of a lane's seat isn't known, or if a partition that
    a lane reads has a replica whose rack isn't known. Streams in systems without racks don't count, and streams that
    don't exist yet don't count either.

    A partition is read from the rack of the lane's seat if this rack has a replica, otherwise from the rack of the
    partition's leader.
    """
    if not where.partitions:
        return None
    racks = {rack for rack in where.seats.values() if rack is not None}
    read: dict[str, Counter[str]] = {rack: Counter() for rack in sorted(racks)}
    for lane in lanes:
        mine = where.seats.get(lane.seat)
        if mine is None:
            return None
        for whole in dict.fromkeys(wholes((*lane.ssps, *lane.broadcast))):
            stream = f"{whole.system}/{whole.stream}"
            if not where.counts(stream):
                continue
            source = _source(mine, where.partitions.get(stream, {}).get(whole.partition, ()))
            if source is None:
                return None
            read[mine][source] += 1
    return Traffic(read={rack: dict(row) for rack, row in read.items()})


def _source(mine: str, racks: Sequence[str | None]) -> str | None:
    if not racks or None in racks:
        return None
    return mine if mine in racks else racks[0]
