"""When lanes ran, reconstructed from a job's events. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from anabranch.coordinator.store import Event
from anabranch.model.lane import Lane, LaneState
from anabranch.views.lane_times import LANES, MARKS, LaneTimes, MarkKind
from anabranch.views.table import Table

__all__ = ["MOST_CLOSED", "MOST_EVENTS", "Span", "lane_times"]

MOST_EVENTS = 10_000
MOST_CLOSED = 2_000
_SHOWN = 300
"""The maximum number of characters of a reason. The rest isn't shown, because an error can be long."""
_ENDS = frozenset({"ended", "failed", "fenced"})


@dataclass(frozen=True)
class Span:
    """The span of time from ``since`` to ``until``. All times are seconds since 1970.

    Args:
        stopped: when the job stopped running; None if it is running.
    """

    now: float
    since: float
    until: float
    stopped: float | None = None


@dataclass
class _Runs:
    """The runs of a lane: pairs [from, to]; "to" is None while the lane is running."""

    runs: list[list[float | None]] = field(default_factory=list)

    def take(self, kind: MarkKind | None, at: float) -> None:
        running = bool(self.runs) and self.runs[-1][1] is None
        if running and kind in {*_ENDS, "started"}:
            self.runs[-1][1] = at
        if kind == "started":
            self.runs.append([at, None])

    def until(self, end: float | None) -> list[list[float | None]]:
        if end is not None and self.runs and self.runs[-1][1] is None:
            begin = self.runs[-1][0] or 0.0
            return [*self.runs[:-1], [begin, max(begin, end)]]
        return self.runs


def lane_times(
    job: str, lanes: Mapping[str, Lane], events: Iterable[Event], span: Span, most_closed: int = MOST_CLOSED
) -> LaneTimes:
    """All runs of each lane that was running at some time in the span, and what happened to lanes in the span. A lane
    that isn't closed is included even if none of its runs is known.

    If a closed lane's process was killed, there may be no event for the lane's end. The lane is then assumed to have
    ended when its first successor started or when the job stopped, whichever was earlier.

    Args:
        lanes: all lanes that the job has ever had, by id, in the order in which they were planned.
        events: the latest events about lanes, oldest first.
        most_closed: the maximum number of closed lanes to show. If there are more, those planned last are shown.
    """
    known_since: float | None = None
    runs: dict[str, _Runs] = {}
    marks: list[tuple[Any, ...]] = []
    for event in events:
        if event.lane not in lanes:
            continue
        known_since = event.at if known_since is None else known_since
        runs.setdefault(event.lane, _Runs()).take(event.mark, event.at)
        if span.since <= event.at < span.until:
            summary = event.what.removeprefix(f"lane {event.lane} ")
            marks.append((event.lane, event.at, event.mark or "other", summary, event.why[:_SHOWN]))
    followed = _followed(lanes, runs)
    rows: list[tuple[Any, ...]] = []
    closed = omitted = 0
    for lane in reversed(list(lanes.values())):
        if lane.state is LaneState.CLOSED:
            ends = (followed.get(lane.id), span.stopped, span.now)
            times = runs.get(lane.id, _Runs()).until(min(end for end in ends if end is not None))
            if not any(_overlaps(one, span) for one in times):
                continue
            if closed >= most_closed:
                omitted += 1
                continue
            closed += 1
        else:
            times = runs.get(lane.id, _Runs()).until(span.stopped)
            if times and not any(_overlaps(one, span) for one in times):
                continue
        rows.append(_row(lane, times))
    return LaneTimes(
        at=span.now,
        job=job,
        since=span.since,
        until=span.until,
        known_since=known_since,
        lanes=Table.of(LANES, reversed(rows)),
        marks=Table.of(MARKS, marks),
        omitted=omitted,
    )


def _followed(lanes: Mapping[str, Lane], runs: Mapping[str, _Runs]) -> dict[str, float]:
    """When the first successor of each lane started, by the lane's id. Lanes without successors are left out."""
    first: dict[str, float] = {}
    for lane in lanes.values():
        start = runs[lane.id].runs[0][0] if lane.id in runs and runs[lane.id].runs else None
        if start is not None:
            first |= {name: min(start, first.get(name, start)) for name in lane.predecessors}
    return first


def _overlaps(run: Sequence[float | None], span: Span) -> bool:
    begin, end = run
    return (begin or 0.0) < span.until and (end is None or end >= span.since)


def _row(lane: Lane, runs: list[list[float | None]]) -> tuple[Any, ...]:
    known = (lane.id, lane.stage, lane.group, lane.seat, lane.state.value)
    return (*known, lane.deployment, lane.factor, lane.epoch, lane.predecessors, runs)
