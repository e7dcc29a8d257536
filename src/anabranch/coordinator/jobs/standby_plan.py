"""Decides which processes maintain standbys of which lanes, and whether a closing lane has the standbys it needs."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from anabranch.model.lane import Lane, LaneState
from anabranch.planning.assignment import standbys
from anabranch.protocol.standby import StandbyAction, StandbyOrder, StandbyReport

__all__ = ["Member", "StandbyOrders", "is_warm", "told"]

StandbyOrders = Mapping[str, tuple[StandbyOrder, ...]]
"""What each process should do with standbys, by the process's execution."""
_NEAR = 10
"""How many batches a standby can be behind and still count as up to date. Those batches are copied after the lane has
stopped.
"""


@dataclass(frozen=True, kw_only=True)
class Member:
    """A process of a job."""

    rack: str | None
    container: str = ""
    """The container's id; empty if the process has no seat."""
    copies: tuple[StandbyReport, ...] = ()
    """The standbys that the process maintains."""


def told(
    lanes: Mapping[str, Lane],
    runners: Mapping[str, str],
    members: Mapping[str, Member],
    count: int,
    moving: Mapping[str, Sequence[str]],
) -> dict[str, tuple[StandbyOrder, ...]]:
    """What each process should do with standbys, by the process's EXECUTION_ENV_CONTAINER_ID (its *execution*). The
    orders for a process are sorted by lane, epoch and number. Each process in ``members`` has an entry, even without
    orders.

    Args:
        lanes: all lanes of the job, by id.
        runners: for each stateful lane that runs and has a folder, the execution of its process.
        members: the processes, by execution.
        count: how many standbys each lane outside ``moving`` should have.
        moving: for each lane that should close, the executions of the processes in which its successors will run. These
            processes should maintain the lane's standbys.
    """
    former: dict[str, dict[str, int]] = {}
    for name, member in members.items():
        for has in member.copies:
            if has.lane in runners and has.epoch == lanes[has.lane].folder_epoch:
                former.setdefault(has.lane, {})[name] = has.number
    staying = {lane: name for lane, name in runners.items() if lane not in moving}
    placed = _placed(
        tuple(sorted(staying.items())),
        tuple(sorted((name, member.rack) for name, member in members.items())),
        count,
        tuple((lane, tuple(sorted(former[lane]))) for lane in sorted(staying.keys() & former.keys())),
    )
    keepers = {lane: standbys.numbered(names, former.get(lane, {})) for lane, names in placed.items()}
    keepers |= {lane: dict(enumerate(names)) for lane, names in moving.items()}
    found: dict[str, list[StandbyOrder]] = {name: [] for name in members}
    for lane, its in keepers.items():
        for number, name in its.items():
            found[name].append(StandbyOrder(lane=lane, epoch=lanes[lane].folder_epoch, number=number))
    awaited = _awaited(lanes.values())
    for name, member in members.items():
        found[name] += [copy for has in member.copies for copy in _left(has, lanes, keepers, awaited)]
    return {
        name: tuple(sorted(its, key=lambda copy: (copy.lane, copy.epoch, copy.number))) for name, its in found.items()
    }


@functools.lru_cache(maxsize=64)
def _placed(
    lanes: tuple[tuple[str, str], ...],
    processes: tuple[tuple[str, str | None], ...],
    count: int,
    former: tuple[tuple[str, tuple[str, ...]], ...],
) -> dict[str, tuple[str, ...]]:
    """The processes in which the solver places each lane's standbys. The result is cached, because every heartbeat with
    news needs it.
    """
    return standbys.place(dict(lanes), dict(processes), count, dict(former))


def is_warm(lane: Lane, batch: int, needed: int, members: Iterable[Member]) -> bool:
    """Whether a lane needn't wait for its standbys. True if each of the ``needed`` standbys is nearly up to date with
    ``batch``, or can't be brought up to date.
    """
    its = [has for member in members for has in member.copies if (has.lane, has.epoch) == (lane.id, lane.folder_epoch)]
    near = {has.number for has in its if has.error or 0 <= has.batch >= batch - _NEAR}
    return near >= {*range(needed)}


def _awaited(lanes: Iterable[Lane]) -> frozenset[str]:
    """The lanes whose folders are still needed, because a successor has yet to continue from them."""
    over = (LaneState.CLOSED, LaneState.FAILED)
    return frozenset(
        name for lane in lanes if not lane.folder_epoch and lane.state not in over for name in lane.predecessors
    )


def _left(
    has: StandbyReport, lanes: Mapping[str, Lane], keepers: Mapping[str, Mapping[int, str]], awaited: frozenset[str]
) -> list[StandbyOrder]:
    """A list with the order to keep or to remove a standby that a process has. The list is empty if the lane isn't
    known, or if this or another process should maintain the lane's standby with this number.

    The process keeps the standby, except in the following cases, in which the standby is removed:

    - The standby is a copy of a former folder of the lane.
    - The lane should have only standbys with other numbers.
    - The lane is closed, and its folder is no longer needed.

    Args:
        keepers: the processes that should maintain standbys, by lane and then by the standby's number.
        awaited: the lanes whose folders are still needed; see :func:`_awaited`.
    """
    lane = lanes.get(has.lane)
    copy = StandbyOrder(lane=has.lane, epoch=has.epoch, number=has.number, to=StandbyAction.REMOVE)
    if lane is None:
        return []
    if lane.folder_epoch != has.epoch:
        return [copy]
    if lane.id in keepers:
        return [] if has.number in keepers[lane.id] else [copy]
    if lane.state is LaneState.CLOSED and lane.id not in awaited:
        return [copy]
    return [StandbyOrder(lane=has.lane, epoch=has.epoch, number=has.number, to=StandbyAction.HOLD)]
