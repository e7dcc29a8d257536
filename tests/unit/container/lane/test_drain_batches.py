"""A lane that drains: which batches are planned for it, and when it has ended. No Spark."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from anabranch.api.timers import INFINITY
from anabranch.container.checkpoint.folder import Folder
from anabranch.container.checkpoint.offset_log import Entry
from anabranch.container.lane.drain_batches import Drain
from anabranch.model.ssp import SSP
from anabranch.protocol.drain import DrainOrder
from anabranch.spark.query.query import LaneQuery
from anabranch.systems.systems import Systems

IN = tuple(SSP(system="embedded", stream="in", partition=p) for p in (0, 1))
BETWEEN = SSP(system="embedded", stream="j-by-dest", partition=0)


def offset(stream: str, positions: Mapping[int, int]) -> dict[str, Any]:
    return {"stream": stream, "id": "x", "positions": {str(p): o for p, o in positions.items()}}


class Lane:
    """Stands for its folder, its query and its systems. Batches that are planned are run at once."""

    def __init__(self, at: Mapping[SSP, int], ends: Mapping[SSP, int], stateful: bool = True) -> None:
        self.ssps = tuple(at)
        self.ends_of = dict(ends)
        self.begun = dict(at)
        streams = sorted({ssp.stream for ssp in at})
        places = [offset(s, {ssp.partition: o for ssp, o in at.items() if ssp.stream == s}) for s in streams]
        self.entries = [Entry({"batchWatermarkMs": 5, "batchTimestampMs": 7}, tuple(places))]
        self.commits = 1
        self.ticks, self.breaks_off, self.leaves_at_the_end = False, False, False
        self.stateful, self.tells_time, self.has_event_time = stateful, False, False
        self.query = SimpleNamespace(
            lane=SimpleNamespace(id="0-a"), plan=self, sources=self, outputs=self, pacer=SimpleNamespace(limit=10)
        )
        self.own = frozenset({BETWEEN.stream})
        self.wanted: DrainOrder | None = DrainOrder(uuid="1")
        self.upstream_ended = False
        self.leaves = False
        self.halts = 0
        self.then: list[DrainOrder | None] = []

    # The folder

    @property
    def pending(self) -> bool:
        return self.commits < len(self.entries)

    def planned(self) -> int:
        return len(self.entries) - 1

    def entry(self, batch: int) -> Entry:
        return self.entries[batch]

    def positions(self) -> dict[str, dict[int, int]]:
        entry = self.entries[self.commits - 1]
        return {name: entry.positions(number) for name, number in entry.streams().items()}

    def sources(self, batch: int) -> dict[str, int]:
        return self.entries[batch].streams()

    def next_watermark(self, batch: int) -> int:
        return 6

    def plan(self, entry: Entry) -> int:
        assert not self.pending
        self.entries.append(entry)
        return self.planned()

    # The systems

    def named(self, name: str) -> Lane:
        return self

    def ends(self, stream: str) -> dict[int, int]:
        return {ssp.partition: end for ssp, end in self.ends_of.items() if ssp.stream == stream}

    high_watermarks = ends

    def run(self) -> None:
        self.commits += 1

    def end(self) -> None:
        self.leaves = self.leaves_at_the_end
        self.commits += not self.breaks_off

    def tell(self) -> None:
        self.halts += 1

    def pause(self, seconds: float) -> None:
        if not self.then:
            self.leaves = True
        else:
            self.wanted = self.then.pop(0)

    def drained(self) -> bool:
        drain = Drain(
            folder=cast(Folder, self),
            query=cast(LaneQuery, self.query),
            clock=Path("/nowhere/clock"),
            systems=cast(Systems, self),
            ssps=self.ssps,
            starting=self.begun,
            wanted=lambda: self.wanted,
            upstream_ended=lambda: self.upstream_ended,
            leaving=lambda: self.leaves,
            run=self.run,
            begin=self.run,
            end=self.end,
            tell=self.tell,
            pause=self.pause,
            now=lambda: 9,
        )
        return drain().drained


def texts(positions: Mapping[SSP, int]) -> dict[str, int]:
    return {str(ssp): offset for ssp, offset in positions.items()}


def test_until_it_is_told_where_to_stop_it_takes_in_what_is_planned_and_no_more() -> None:
    lane = Lane(dict.fromkeys(IN, 4), dict.fromkeys(IN, 100))
    lane.entries.append(lane.entries[0].with_positions(0, {0: 8, 1: 4}))
    assert not lane.drained()
    assert lane.positions() == {"in": {0: 8, 1: 4}}
    assert lane.halts == 1


def test_it_reads_on_to_where_all_stop_in_batches_that_are_small_enough_and_waits_there() -> None:
    lane = Lane(dict.fromkeys(IN, 4), dict.fromkeys(IN, 100))
    lane.then = [DrainOrder(uuid="1", until=texts({IN[0]: 40, IN[1]: 6}))]
    assert not lane.drained()
    assert lane.positions() == {"in": {0: 40, 1: 6}}
    read = [sum(entry.positions(0).values()) for entry in lane.entries]
    sizes = [after - before for before, after in itertools.pairwise(read)]
    assert sum(sizes) == 38
    assert max(sizes) <= lane.query.pacer.limit
    assert not any(entry.drains for entry in lane.entries)
    assert {entry.watermark for entry in lane.entries[1:]} == {6}
    assert lane.halts == 2


def test_what_a_reader_may_not_see_yet_is_waited_for() -> None:
    lane = Lane({IN[0]: 4}, {IN[0]: 10})
    lane.wanted = DrainOrder(uuid="1", until=texts({IN[0]: 20}), last=True)
    assert not lane.drained()
    assert lane.positions() == {"in": {0: 10}}
    assert not any(entry.drains for entry in lane.entries)


def test_time_ends_once_in_a_batch_that_reads_nothing() -> None:
    lane = Lane(dict.fromkeys(IN, 4), dict.fromkeys(IN, 100))
    lane.wanted = DrainOrder(uuid="1", until=texts(dict.fromkeys(IN, 4)), last=True)
    assert lane.drained()
    last = lane.entries[-1]
    assert (last.watermark, last.positions(0), len(lane.entries)) == (INFINITY, {0: 4, 1: 4}, 2)
    assert lane.drained(), "a process that begins after the last commit has nothing to do"
    assert len(lane.entries) == 2


def test_a_process_that_begins_after_time_was_to_end_finishes_just_that() -> None:
    lane = Lane({IN[0]: 4}, {IN[0]: 100})
    lane.wanted = DrainOrder(uuid="1", until=texts({IN[0]: 4}), last=True)
    lane.entries.append(lane.entries[0].with_watermark(INFINITY))
    assert lane.drained()
    assert (lane.commits, len(lane.entries)) == (2, 2)


def test_a_stage_is_read_out_when_all_that_write_it_have_ended() -> None:
    lane = Lane({BETWEEN: 3}, {BETWEEN: 9})
    lane.wanted = DrainOrder(uuid="1", until={}, last=True)
    assert not lane.drained()
    assert lane.positions() == {BETWEEN.stream: {0: 9}}
    assert not any(entry.drains for entry in lane.entries)
    lane.leaves, lane.upstream_ended, lane.ends_of[BETWEEN] = False, True, 11
    assert lane.drained()
    assert lane.positions() == {BETWEEN.stream: {0: 11}}
    assert [entry.drains for entry in lane.entries] == [False] * (len(lane.entries) - 1) + [True]


def test_a_lane_without_state_that_tells_nobody_the_time_just_ends() -> None:
    lane = Lane({IN[0]: 4}, {IN[0]: 100}, stateful=False)
    lane.wanted = DrainOrder(uuid="1", until=texts({IN[0]: 4}), last=True)
    assert lane.drained()
    assert len(lane.entries) == 1


@pytest.mark.parametrize(("ticks", "at"), [(True, INFINITY), (False, 9)])
def test_timers_of_processing_time_fire_by_the_time_of_the_batch(ticks: bool, at: int) -> None:
    lane = Lane({IN[0]: 4}, {IN[0]: 100})
    lane.ticks = ticks
    lane.wanted = DrainOrder(uuid="1", until=texts({IN[0]: 4}), last=True)
    assert lane.drained()
    assert lane.entries[-1].metadata == {"batchWatermarkMs": INFINITY, "batchTimestampMs": at}


def test_a_lane_whose_last_batch_is_broken_off_has_not_drained_until_it_is_finished() -> None:
    lane = Lane({IN[0]: 4}, {IN[0]: 100})
    lane.wanted = DrainOrder(uuid="1", until=texts({IN[0]: 4}), last=True)
    lane.breaks_off = True
    assert not lane.drained()
    assert lane.pending
    lane.breaks_off = False
    assert lane.drained()
    assert (lane.commits, len(lane.entries)) == (2, 2)


def test_a_lane_that_is_told_to_leave_in_its_last_batch_has_drained() -> None:
    lane = Lane({IN[0]: 4}, {IN[0]: 100})
    lane.wanted = DrainOrder(uuid="1", until=texts({IN[0]: 4}), last=True)
    lane.leaves_at_the_end = True
    assert lane.drained()


def test_a_drain_that_is_taken_back_lets_it_go_on() -> None:
    lane = Lane({IN[0]: 4}, {IN[0]: 100})
    lane.then = [None]
    assert not lane.drained()
    assert not lane.leaves
    assert len(lane.entries) == 1
