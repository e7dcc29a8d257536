"""Plans the batches of a draining lane. The lane first reads up to the offsets at which it must stop. Then, if
necessary, an empty batch follows, in which all windows close and all timers fire."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from anabranch import crash_points
from anabranch.api.timers import INFINITY
from anabranch.clocks import boottime
from anabranch.container.checkpoint.folder import Folder
from anabranch.container.checkpoint.offset_log import Entry
from anabranch.event_time.progress import Progress
from anabranch.model.ssp import SSP, parsed
from anabranch.protocol.drain import DrainOrder
from anabranch.spark.query import clock
from anabranch.spark.query.query import LaneQuery
from anabranch.systems.source import share
from anabranch.systems.systems import Systems

__all__ = ["Drain", "Outcome", "planned"]

_POLL = 0.1

Offsets = Mapping[SSP, int]


@dataclass(frozen=True)
class Outcome:
    """How a drain ended. If the lane hasn't ``drained``, it continues as before, or must end without having drained."""

    drained: bool


def planned(entry: Entry, watermark: int, reached: Progress | None, now: int) -> Entry:
    """The entry of an empty batch that follows the batch of ``entry``. Both batches end at the same offsets. All times
    are in Unix ms.

    Args:
        watermark: Spark's watermark after the last batch.
        reached: the lane's own event time; None if it has none.
        now: the processing time.
    """
    following = entry.with_watermark(watermark).with_time(now)
    return following if reached is None else following.with_progress(reached)


@dataclass(frozen=True)
class Drain:
    """Drains one lane: calling this object plans batches in the lane's folder. Call it only if no query of the lane is
    running, or if the running query is held.

    Args:
        clock: the file with the lane's event time.
        ssps: the whole SSPs that the lane reads.
        starting: the start offsets of inputs that the lane has never read.
        wanted: returns how the lane should drain; None if it should no longer drain.
        upstream_ended: returns whether all lanes that write the lane's inputs have ended.
        leaving: returns whether the lane must end without having drained.
        run: runs the planned batch.
        begin: runs a first batch, which reads nothing.
        end: runs the planned batch, after which no other batch begins.
        tell: reports that, for now, the lane has nothing more to read.
        pause: waits for at most the given number of seconds.
        now: returns the current time in Unix ms.
    """

    folder: Folder
    query: LaneQuery
    clock: Path
    systems: Systems
    ssps: tuple[SSP, ...]
    starting: Offsets
    wanted: Callable[[], DrainOrder | None]
    upstream_ended: Callable[[], bool]
    leaving: Callable[[], bool]
    run: Callable[[], None]
    begin: Callable[[], None]
    end: Callable[[], None]
    tell: Callable[[], None]
    pause: Callable[[float], object]
    now: Callable[[], int]

    def __call__(self) -> Outcome:
        """Read all records that the lane must still read. Once every lane of the job has done so, run the last batch,
        if there is anything for it to do."""
        if self.folder.pending:
            self.run()
        while (wanted := self.wanted()) is not None and not self.leaving():
            if self._is_over():
                return Outcome(drained=True)
            if wanted.until is not None and self._take_in(wanted.until):
                continue
            if wanted.last and wanted.until is not None and self._has_all_of(wanted.until):
                if not self._closes():
                    return Outcome(drained=True)
                number = self._plan_last()
                crash_points.reach(crash_points.ENDING, self.query.lane.id, number)
                self.end()
                if self.folder.pending:  # the last batch was broken off
                    break
                crash_points.reach(crash_points.DRAINED, self.query.lane.id, number)
                return Outcome(drained=True)
            self.tell()
            crash_points.reach(crash_points.HALTED, self.query.lane.id, self.folder.planned())
            self.pause(_POLL)
        return Outcome(drained=False)

    def _is_over(self) -> bool:
        """Whether the lane's last batch, which a former process may have planned, is already committed."""
        last = self.folder.planned()
        return last >= 0 and self.folder.entry(last).drains

    def _take_in(self, until: Mapping[str, int]) -> bool:
        begins, ends = self._held(), self._ends(until)
        if all(begins[ssp] >= end for ssp, end in ends.items()):
            return False
        if self.folder.planned() < 0:
            self.begin()
            return True
        numbered = dict(enumerate(self.ssps))
        to = share(
            {n: begins[ssp] for n, ssp in numbered.items()},
            {n: ends[ssp] for n, ssp in numbered.items()},
            self.query.pacer.limit,
        )
        entry = self._next()
        for stream, source in self.folder.sources(self.folder.planned()).items():
            held = {numbered[n].partition: at for n, at in to.items() if numbered[n].stream == stream}
            entry = entry.with_positions(source, {**entry.positions(source), **held})
        self.folder.plan(entry)
        self.run()
        return True

    def _has_all_of(self, until: Mapping[str, int]) -> bool:
        at = self._held()
        if any(at[ssp] < end for ssp, end in parsed(dict(until)).items() if ssp in at):
            return False
        if not any(ssp.stream in self.query.plan.own for ssp in self.ssps):
            return True
        if not self.upstream_ended():
            return False
        held, places = (
            self._held(),
            {(ssp.system, ssp.stream) for ssp in self.ssps if ssp.stream in self.query.plan.own},
        )
        ends = {place: self.systems.named(place[0]).high_watermarks(place[1]) for place in places}
        return all(
            held[ssp] >= ends[ssp.system, ssp.stream][ssp.partition]
            for ssp in self.ssps
            if (ssp.system, ssp.stream) in ends
        )

    def _closes(self) -> bool:
        """Whether a last batch has anything to do. True if a batch was planned before and, in addition, either
        the lane has state, or the readers of the lane's intermediate streams need the watermark."""
        return self.folder.planned() >= 0 and (self.query.plan.stateful or self.query.outputs.tells_time)

    def _plan_last(self) -> int:
        entry = self._next().with_watermark(INFINITY)
        return self.folder.plan(entry.with_time(INFINITY) if self.query.plan.ticks else entry)

    def _next(self) -> Entry:
        last = self.folder.planned()
        time = clock.read(self.clock)
        if time is None and self.query.sources.has_event_time:
            self.query.outputs.time.begin(self.folder.batch(last), pending=False)
            time = clock.read(self.clock)
        now = self.now() if time is None else time.now(self.now(), boottime())
        reached = None if time is None else time.heard(self.systems.named, now)
        entry = self.folder.entry(last)
        now = max(now, int(entry.metadata.get("batchTimestampMs", 0)))
        return planned(entry, max(entry.watermark, self.folder.next_watermark(last)), reached, now)

    def _held(self) -> dict[SSP, int]:
        held = self.folder.positions()
        return {ssp: held.get(ssp.stream, {}).get(ssp.partition, self.starting.get(ssp, 0)) for ssp in self.ssps}

    def _ends(self, until: Mapping[str, int]) -> dict[SSP, int]:
        """For each SSP, the offset up to which the lane should read now. For a stream that the job writes itself, the
        result contains the end offset. For any other stream, the result contains the offset in ``until`` or the end
        offset, whichever is lower. For an SSP with nothing more to read, the result contains the lane's position.
        """
        held, stop = self._held(), parsed(dict(until))
        wanted = {ssp: stop.get(ssp, held[ssp]) for ssp in self.ssps if ssp.stream not in self.query.plan.own}
        behind = {(ssp.system, ssp.stream) for ssp in self.ssps if wanted.get(ssp, math.inf) > held[ssp]}
        there = {place: self.systems.named(place[0]).ends(place[1]) for place in behind}
        found = dict(held)
        for ssp in self.ssps:
            if (ssp.system, ssp.stream) in there:
                end = there[ssp.system, ssp.stream][ssp.partition]
                found[ssp] = max(held[ssp], min(wanted.get(ssp, end), end))
        return found
