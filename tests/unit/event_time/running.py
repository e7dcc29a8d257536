"""Lanes that hand event time on, without Spark: batches, kills, restarts and successors, over a log in memory.

What a lane does with a batch is the real ``Publishing`` and ``Clock``. Stand-ins are the log, the sources and the
query: it plans a batch, reads it, closes the windows that end before the watermark, and commits.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec

from anabranch.event_time import progress
from anabranch.event_time.progress import Progress
from anabranch.model.lane import Lane, LaneState
from anabranch.model.ssp import SSP
from anabranch.planning.transition import opening
from anabranch.spark.query import clock
from anabranch.spark.query.lane_time import LaneTime
from anabranch.spark.query.planned_batch import Batch
from anabranch.spark.query.publishing import Publishing
from anabranch.spark.query.rejections import Rejections
from anabranch.systems.output import Target
from tests.unit.event_time.memory_log import (
    COMMITTED,
    DELAY,
    FINISHED,
    PLANNED,
    PUBLISHED,
    PUBLISHING,
    WINDOW,
    File,
    Killed,
    MemoryLog,
    Row,
    Source,
    Told,
    Window,
    Writer,
    ssp_of,
)
from tests.unit.event_time.shapes import Action, Expand, Merge, Recut, Shape, Split, Take

DEATHS = (PLANNED, PUBLISHING, PUBLISHED, FINISHED, COMMITTED)
_ENOUGH = 200


@dataclass
class Windows:
    """The state of one task: what its windows hold, and what they held when they were closed."""

    open: dict[int, list[Row]] = field(default_factory=dict)
    closed: dict[int, list[Row]] = field(default_factory=dict)

    def after(self, rows: Iterable[Row], watermark: float) -> Windows:
        """Windows are closed first, so no row of the batch may be of one that ends before its watermark."""
        held = {start: list(several) for start, several in self.open.items()}
        closed = {start: held.pop(start) for start in sorted(held) if start + WINDOW.size <= watermark}
        for row in rows:
            start = WINDOW.start_of(row.at)
            if start + WINDOW.size > watermark:
                held.setdefault(start, []).append(row)
        return Windows(held, {**self.closed, **closed})


class Running:
    """A lane that runs: its offset log and its state are durable, its clock is not."""

    def __init__(self, site: Site, stage: int, lane: Lane, batches: list[Batch], state: dict[int, Windows]) -> None:
        self.site = site
        self.stage = stage
        self.lane = lane
        self.state = state
        self.batches = {batch.number: batch for batch in batches}
        self.committed = max(self.batches, default=-1)
        self.ssps = list(lane.ssps)
        self._writer = Writer(site.log)
        streams = sorted({ssp.stream for ssp in self.ssps})
        self._sources = [Source(site.log, s, tuple(x for x in self.ssps if x.stream == s)) for s in streams]
        self._delays = {str(x): DELAY if source.timed else None for source in self._sources for x in source.ssps}
        self._clock = cast(Path, File({}, lane.id))
        self._publishing = self._made()
        for batch in batches:
            self._tell(batch.number, batch.progress)
        self.restart()

    def _made(self) -> Publishing:
        counts, next_stage = self.site.shape.counts, self.stage + 1
        writes = [Target(f"s{next_stage}", counts[next_stage])] if next_stage < len(counts) else []
        unused: dict[str, Any] = {each.name: None for each in fields(Rejections)}
        nothing: Any = {"aside": SimpleNamespace(said=SimpleNamespace(value=[])), "dropped": abs, "late": dict}
        return Publishing(
            lane=self.lane,
            publishers=cast(Any, {"embedded": self._writer}),
            plain={},
            targets=dict(enumerate(writes)),
            timed=writes,
            refusals={},
            rejections=Rejections(**{**unused, **nothing}),
            time=LaneTime(self.lane, cast(Any, self._sources), self._clock, self._delays),
            planned=self.batches.__getitem__,
        )

    @property
    def last(self) -> Batch | None:
        return self.batches[max(self.batches)] if self.batches else None

    @property
    def told(self) -> bool:
        """Whether those who read its output have heard of it."""
        return bool(self._writer.batches) or self.stage == self.site.shape.last

    @property
    def watermark(self) -> int | None:
        return None if self.last is None else self.last.progress.watermark

    @property
    def tasks(self) -> list[int]:
        return [int(task) for task in self.lane.tasks]

    def restart(self) -> None:
        """All memory is lost; a batch that wasn't committed is run again."""
        self._writer.left = None
        last = self.last
        pending = last is not None and last.number > self.committed
        self._publishing.time.begin(last, pending)
        if pending and last is not None:
            self.run(last, None)

    def batch(self, wanted: Sequence[int], death: str | None) -> bool:
        """Plan and run one more batch; False when there is nothing to run one for."""
        last, log = self.last, self.site.log
        begins = self._positions()
        rows = [wanted[n % len(wanted)] for n in range(len(self.ssps))]
        ends = {ssp: min(begins[ssp] + most, len(log.rows(ssp))) for ssp, most in zip(self.ssps, rows, strict=True)}
        start = Progress() if last is None else last.progress
        ticked = clock.read(self._clock)
        now = start if ticked is None else ticked.heard(log.named, 0)
        if last is not None and ends == begins and now == start:
            return False  # the first one runs also without anything new
        kept = progress.from_builtins(json.loads(json.dumps(now.to_builtins())))
        number, held = (0, {}) if last is None else (last.number + 1, last.ends)
        self._tell(number, kept)
        self.batches[number] = Batch(number, held, _by_stream(ends), kept)
        self.run(self.batches[number], death)
        return True

    def _positions(self) -> dict[SSP, int]:
        held = {} if self.last is None else self.last.ends
        return {ssp: held.get(ssp.stream, {}).get(ssp.partition, 0) for ssp in self.ssps}

    def _tell(self, batch: int, now: Progress) -> None:
        unread = [row.at for ssp, at in self._positions().items() for row in self.site.unread(ssp, at)]
        self.site.told.append(Told(self.lane, batch, now.watermark, unread))

    def run(self, batch: Batch, death: str | None) -> None:
        if death == PLANNED:
            raise Killed
        rows = {ssp: self._read(batch, ssp) for ssp in self.ssps}
        measured: dict[str, dict[str, int]] = {}
        for ssp, several in rows.items():
            if several and self._delays[str(ssp)] is not None:
                measured.setdefault(ssp.stream, {})[str(ssp)] = max(row.at for row in several)
        refs: dict[tuple[str, int], list[Any]] = {}
        if self.stage < self.site.shape.last:
            for row in (row for several in rows.values() for row in several):
                place = (f"s{self.stage + 1}", self.site.shape.partition(self.stage + 1, row))
                refs.setdefault(place, []).append(row)
        partitions = 0 if self.stage == self.site.shape.last else self.site.shape.counts[self.stage + 1]
        self._writer.left = {PUBLISHING: partitions - 1, PUBLISHED: partitions}.get(death or "")
        written = [SimpleNamespace(stream=s, partition=p, rows=rows) for (s, p), rows in refs.items()]
        self._publishing.finish(batch.number, cast(Any, written), measured)
        if death in (PUBLISHED, FINISHED):
            raise Killed
        if self.stage == self.site.shape.last:
            self._aggregate(rows, -float("inf") if batch.progress.watermark is None else batch.progress.watermark)
        self.committed = batch.number
        if death == COMMITTED:
            raise Killed

    def _read(self, batch: Batch, ssp: SSP) -> list[Row]:
        first, end = batch.ranges(ssp.stream, {})[ssp.partition]
        return self.site.log.rows(ssp)[first:end]

    def _aggregate(self, rows: Mapping[SSP, list[Row]], watermark: float) -> None:
        for task in self.tasks:
            mine = [row for ssp, several in rows.items() if ssp.partition == task for row in several]
            self.state[task] = self.state.get(task, Windows()).after(mine, watermark)


class Site:
    """All lanes of a shape, and what they have told."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.log = MemoryLog()
        self.told: list[Told] = []
        self._count = 0
        self._closed: dict[str, Lane] = {}
        self._destined = shape.destinies()
        for source in shape.sources():
            self.log.add(source, shape.of(source))
        self.lanes: list[list[Running]] = []
        for stage, numbers in enumerate(shape.lanes):
            shares = _shares(range(shape.counts[stage]), numbers)
            ids = [self._new_id(stage) for _ in shares]
            beside = dict.fromkeys(ids, ())
            self.lanes.append(
                [
                    Running(self, stage, self._lane(i, stage, share, beside), [], {})
                    for i, share in zip(ids, shares, strict=True)
                ]
            )

    def act(self, action: Action) -> None:
        stage = 0 if isinstance(action, Expand) else action.stage % len(self.lanes)
        lanes = self.lanes[stage]
        if isinstance(action, Take):
            lane = lanes[action.lane % len(lanes)]
            try:
                lane.batch(action.rows, action.death)
            except Killed:
                lane.restart()
        elif all(lane.last is not None for lane in lanes):
            self._replace(stage, lanes, action)

    def _replace(self, stage: int, lanes: Sequence[Running], action: Split | Merge | Recut | Expand) -> None:
        if isinstance(action, Recut):
            tasks = sorted(task for lane in lanes for task in lane.tasks)
            self._succeed(stage, lanes, _shares(tasks, action.lanes))
        elif isinstance(action, Merge):
            if len(lanes) > 1:
                self._succeed(stage, lanes[:2], [[*lanes[0].tasks, *lanes[1].tasks]])
        else:
            parent = lanes[action.lane % len(lanes)]
            if isinstance(action, Expand):
                added = self.shape.counts[0]
                self.shape = self.shape.expanded(action.rows)
                self._destined = self.shape.destinies()
                self.log.add(ssp_of("s0", added), self._destined[ssp_of("s0", added)])
                self._succeed(stage, [parent], [[*parent.tasks, added]])
            elif len(parent.tasks) > 1:
                self._succeed(stage, [parent], [parent.tasks[:1], parent.tasks[1:]])

    def settle(self) -> None:
        """Everything is read, and told to all whom it concerns."""
        for _ in range(_ENOUGH):
            if not [lane for lanes in self.lanes for lane in lanes if lane.batch((_ENOUGH,), None)]:
                return
        raise AssertionError("the lanes never come to rest")

    def unread(self, ssp: SSP, position: int) -> list[Row]:
        """The rows that an SSP has beyond a position, or will have."""
        read = set(self.log.rows(ssp)[:position])
        return [row for row in self._destined[ssp] if row not in read]

    def closed(self) -> dict[Window, list[Row]]:
        """What every closed window held."""
        return {(task, start): rows for task, held in self._tasks() for start, rows in held.closed.items()}

    def drained(self) -> dict[Window, list[Row]]:
        """What every window holds if those that are still open are closed now."""
        states = [(task, held.after([], float("inf"))) for task, held in self._tasks()]
        return {(task, start): rows for task, held in states for start, rows in held.closed.items()}

    def _tasks(self) -> Iterator[tuple[int, Windows]]:
        for lane in self.lanes[-1]:
            yield from lane.state.items()

    def _new_id(self, stage: int) -> str:
        self._count += 1
        return f"{stage}-{self._count:08x}"

    def _lane(self, lane_id: str, stage: int, tasks: Sequence[int], beside: Mapping[str, tuple[str, ...]]) -> Lane:
        return Lane(
            id=lane_id,
            job="j",
            deployment=0,
            stage=str(stage),
            group="outputs-embedded",
            seat="0",
            tasks=tuple(str(task) for task in tasks),
            ssps=tuple(self.shape.ssps(stage, tasks)),
            beside=dict(beside),
            predecessors=beside[lane_id],
        )

    def _succeed(self, stage: int, parents: Sequence[Running], shares: Sequence[Sequence[int]]) -> None:
        """Lanes that go on from others, each with the tasks of a share, on what is left of their offset logs."""
        others = [lane for lane in self.lanes[stage] if lane not in parents]
        for parent in parents:
            last = 0 if parent.told else -1
            closed = msgspec.structs.replace(parent.lane, state=LaneState.CLOSED, last_batch=last)
            self._closed[closed.id] = closed
        ids = [self._new_id(stage) for _ in shares]
        own = [[lane for lane in parents if set(lane.tasks) & set(share)] for share in shares]
        beside = {lane.lane.id: lane.lane.speaks_for for lane in others}
        before = {i: tuple(lane.lane.id for lane in mine) for i, mine in zip(ids, own, strict=True)}
        beside |= {i: opening.spoken_for(its, self._closed) for i, its in before.items()}
        children = []
        for lane_id, share, mine in zip(ids, shares, own, strict=True):
            lane = self._lane(lane_id, stage, share, beside)
            state = {task: windows for parent in mine for task, windows in parent.state.items() if task in share}
            children.append(Running(self, stage, lane, [_inherited(mine, lane.ssps)], state))
        self.lanes[stage] = [*others, *children]


def _inherited(parents: Sequence[Running], ssps: Sequence[SSP]) -> Batch:
    """The last batch of the parents as that of a child: what concerns its SSPs, and the lowest of the watermarks."""
    last = [parent.last for parent in parents if parent.last is not None]
    own = [
        _only(batch.progress, {str(ssp) for ssp in parent.ssps}) for parent, batch in zip(parents, last, strict=True)
    ]
    watermarks = [batch.progress.watermark for batch in last]
    known = [at for at in watermarks if at is not None]
    return Batch(
        number=max(batch.number for batch in last),
        begins=_kept([batch.begins for batch in last], ssps),
        ends=_kept([batch.ends for batch in last], ssps),
        progress=Progress(
            watermark=min(known) if len(known) == len(watermarks) else None,
            maxima={ssp: at for held in own for ssp, at in held.maxima.items()},
            upstream={ssp: each for held in own for ssp, each in held.upstream.items()},
        ),
    )


def _only(held: Progress, ssps: set[str]) -> Progress:
    """Of some SSPs alone: what it says of others is of the time when they were the lane's."""
    maxima = {ssp: at for ssp, at in held.maxima.items() if ssp in ssps}
    return replace(held, maxima=maxima, upstream={ssp: each for ssp, each in held.upstream.items() if ssp in ssps})


def _kept(several: Sequence[Mapping[str, Mapping[int, int]]], ssps: Sequence[SSP]) -> dict[str, dict[int, int]]:
    held = {ssp_of(s, p): at for positions in several for s, each in positions.items() for p, at in each.items()}
    return _by_stream({ssp: held.get(ssp, 0) for ssp in ssps})


def _by_stream(positions: Mapping[SSP, int]) -> dict[str, dict[int, int]]:
    found: dict[str, dict[int, int]] = {}
    for ssp, at in positions.items():
        found.setdefault(ssp.stream, {})[ssp.partition] = at
    return found


def _shares(tasks: Sequence[int], lanes: Sequence[int]) -> list[list[int]]:
    """Tasks by the number of their lane."""
    found: dict[int, list[int]] = {}
    for n, task in enumerate(tasks):
        found.setdefault(lanes[n % len(lanes)], []).append(task)
    return list(found.values())
