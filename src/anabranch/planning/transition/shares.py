"""Determines what each lane of the next generation will own. If a current lane already owns exactly this, the lane can
be kept.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import msgspec

from anabranch.model.job_model import StageModel
from anabranch.model.lane import Lane, LaneState
from anabranch.model.ssp import SSP, in_order, wholes
from anabranch.model.task import Task
from anabranch.planning.lane_split import spread
from anabranch.planning.ownership.buckets import owned
from anabranch.planning.plan.numbers import task_numbers, virtual_of

__all__ = ["Share", "kept", "shares_of"]


@dataclass(frozen=True)
class Share:
    """What a new lane will own.

    Attributes:
        factor: the factor of the lane's SSPs and buckets. It can be above the job's factor.
        virtual: for each of the lane's tasks, which of the task's buckets the lane owns. The keys are the tasks'
            numbers at factor 1.
        of: the lane's predecessors.
    """

    seat: str
    tasks: tuple[Task, ...]
    factor: int
    ssps: tuple[SSP, ...]
    virtual: Mapping[int, Collection[int]]
    of: tuple[Lane, ...]

    def broadcast(self, former: Lane) -> tuple[SSP, ...]:
        """The SSPs that are broadcast to the lane. ``former`` is a lane of the same group."""
        streams = {ssp.stream for ssp in former.broadcast}
        return tuple(sorted({s for t in self.tasks for s in t.broadcast if s.stream in streams}, key=in_order))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the share's tasks."""
        return tuple(task.name for task in self.tasks)

    def is_had_by(self, lane: Lane) -> bool:
        """Whether a lane has exactly this share and can be kept. (A failed lane can't.)"""
        if (lane.seat, lane.tasks, lane.factor, lane.ssps) != (self.seat, self.names, self.factor, self.ssps):
            return False
        if lane.state is LaneState.FAILED or lane.broadcast != self.broadcast(lane):
            return False
        return owned(lane) == {number: frozenset(buckets) for number, buckets in self.virtual.items()}


def kept(present: Sequence[Lane], shares: Sequence[Share]) -> dict[str, Share]:
    """The lanes that can be kept, by id, with their shares."""
    known: dict[tuple[str, tuple[str, ...]], list[Share]] = {}
    for share in shares:
        known.setdefault((share.seat, share.names), []).append(share)
    found = {}
    for lane in present:
        its = next((share for share in known.get((lane.seat, lane.tasks), ()) if share.is_had_by(lane)), None)
        if its is not None:
            found[lane.id] = its
    return found


def shares_of(
    present: Sequence[Lane],
    by_seat: Mapping[str, Sequence[Task]],
    factor: int,
    fresh: Mapping[SSP, SSP],
    lanes: int,
    stage: StageModel,
) -> list[Share]:
    """The shares of one group's new lanes.

    A stateless group has up to ``lanes`` shares in each seat. In a stateful group, each current lane becomes one share
    in each seat that gets some of the lane's tasks. So a lane's state is divided only if its tasks go to several seats.

    Args:
        present: the current lanes of the group.
        by_seat: the tasks that each seat will have.
        factor: the job's next factor.
        fresh: the base of each partition that is new in the stage.
        lanes: how many lanes a stateless group can have in each seat.
        stage: the stage in the next generation.
    """
    if present[0].stateful:
        task_of = task_numbers(stage, factor)
        owner = {divmod(task.index, factor): (seat, task) for seat, tasks in by_seat.items() for task in tasks}
        return [share for lane in present for share in _pieces(lane, fresh, task_of, owner, factor, stage)]
    streams = {ssp.stream for lane in present for ssp in lane.ssps} | _matched_streams(present[0], stage)
    owning = _owners(present, factor)
    found = []
    for seat, mine in ((seat, part) for seat, tasks in by_seat.items() for part in spread(tasks, lanes, factor)):
        ssps = tuple(sorted({ssp for task in mine for ssp in task.ssps if ssp.stream in streams}, key=in_order))
        concerned = [task for task in mine if present[0].broadcast or any(ssp.stream in streams for ssp in task.ssps)]
        virtual = virtual_of(concerned, factor)
        if virtual:
            found.append(Share(seat, tuple(mine), factor, ssps, virtual, owning(ssps, virtual)))
    return found


def _owners(
    lanes: Sequence[Lane], factor: int
) -> Callable[[Sequence[SSP], Mapping[int, Collection[int]]], tuple[Lane, ...]]:
    """A function that finds the predecessors of a new lane. The function gets the SSPs and the parts of tasks that the
    new lane will own (as buckets at ``factor``). It returns those of ``lanes`` that own any of these SSPs or parts.

    Normally, only SSPs count, because a stateless stage's tasks can get other numbers when a stream grows. If there is
    a broadcast input, parts of tasks count, too, because tasks can have reached different offsets of this input.
    """
    by_task = bool(lanes[0].broadcast)
    found: dict[int, dict[tuple[object, int], list[int]]] = {}

    def keys(ssps: Iterable[SSP], parts: Mapping[int, Collection[int]], least: int) -> set[tuple[object, int]]:
        read = {((ssp.system, ssp.stream, ssp.partition), max(0, ssp.key_bucket) % least) for ssp in ssps}
        return read | {(number, bucket % least) for number, buckets in parts.items() for bucket in buckets}

    for place, lane in enumerate(lanes):
        least = min(factor, lane.factor)
        places = found.setdefault(least, {})
        for key in keys(lane.ssps, owned(lane) if by_task else {}, least):
            places.setdefault(key, []).append(place)

    def owning(ssps: Sequence[SSP], virtual: Mapping[int, Collection[int]]) -> tuple[Lane, ...]:
        its = {
            place
            for least, places in found.items()
            for key in keys(ssps, virtual if by_task else {}, least)
            for place in places.get(key, ())
        }
        return tuple(lanes[place] for place in sorted(its))

    return owning


def _pieces(
    lane: Lane,
    fresh: Mapping[SSP, SSP],
    task_of: Mapping[SSP, int],
    owner: Mapping[tuple[int, int], tuple[str, Task]],
    factor: int,
    stage: StageModel,
) -> list[Share]:
    """The shares into which a stateful lane is divided: one for each seat that gets tasks whose state the lane has. A
    new partition belongs to the same share as its base; a partition of a new stream belongs to its task's share.

    Args:
        fresh: the base of each new partition.
        task_of: the number, at factor 1, of the task that reads each partition.
        owner: the seat and the virtual task that will have each bucket. Each key consists of the task's number at
            factor 1 and the bucket's number at the new factor.
    """
    numbers = {whole: lane.numbers[str(whole)] for whole in dict.fromkeys(wholes(lane.ssps))}
    streams = _matched_streams(lane, stage)
    come = {whole for whole, base in fresh.items() if whole == base and whole.stream in streams}
    numbers |= {whole: task_of[whole] for whole in come}
    numbers |= {whole: numbers[base] for whole, base in fresh.items() if base in numbers}
    finest = max(factor, lane.factor)
    parts: dict[str, dict[int, list[int]]] = {}
    its: dict[str, dict[str, Task]] = {}
    for number, buckets in owned(lane).items():
        for bucket in (finer for each in sorted(buckets) for finer in range(each, finest, lane.factor)):
            seat, task = owner[number, bucket % factor]
            parts.setdefault(seat, {}).setdefault(number, []).append(bucket)
            its.setdefault(seat, {})[task.name] = task
    found = []
    for seat, several in parts.items():
        least = _coarsest(several.values(), finest, factor)
        virtual = {number: [bucket for bucket in each if bucket < least] for number, each in several.items()}
        read = ((whole, virtual.get(number, ())) for whole, number in numbers.items())
        ssps = tuple(sorted((_part(whole, b, least) for whole, each in read for b in each), key=in_order))
        mine = sorted(its[seat].values(), key=lambda task: task.index)
        found.append(Share(seat, tuple(mine), least, ssps, virtual, (lane,)))
    return found


def _part(whole: SSP, bucket: int, factor: int) -> SSP:
    return whole if factor == 1 else msgspec.structs.replace(whole, key_bucket=bucket)


def _coarsest(several: Collection[Sequence[int]], finest: int, least: int) -> int:
    """The smallest factor, starting from ``least``, at which each set in ``several`` consists of whole buckets. The
    sets contain buckets at the factor ``finest``."""
    factor = finest
    while factor > least:
        half = factor // 2
        for buckets in several:
            below = {b for b in buckets if b < factor}
            if any((b + half) % factor not in below for b in below):
                return factor
        factor = half
    return factor


def _matched_streams(lane: Lane, stage: StageModel) -> set[str]:
    """The streams that match the patterns of the lane's inputs, according to ``stage``."""
    return {stream for name in lane.matched for stream in stage.patterns[name].streams}
