"""Lists the partitions that a job reads, in sorted rows: one row for each partition and lane. Also computes totals over
all rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from anabranch.errors import UsageError
from anabranch.model.lane import Lane, open_lanes
from anabranch.model.ssp import wholes
from anabranch.protocol.lane_report import LaneReport
from anabranch.views.about import Partitions
from anabranch.views.table import Table

__all__ = ["COLUMNS", "PartitionFilter", "partitions"]

COLUMNS = ("ssp", "lane", "position", "end", "lag", "held", "idle", "time")
_LAG, _IDLE, _TIME = COLUMNS.index("lag"), COLUMNS.index("idle"), COLUMNS.index("time")
_NEAR = 60_000
"""A partition counts as holding event time back if its event time is at most this many ms later than the earliest event
time of all partitions. Idle partitions are left out.
"""


@dataclass(frozen=True)
class PartitionFilter:
    """Which rows to return."""

    stage: str
    """The stage that reads the partitions; empty for any stage."""
    lane: str
    """The lane that reads the partitions; empty for any lane."""
    sort: str
    """The name of the column by which to sort. If there is a minus sign before the name, the largest value comes first.
    Unknown values always come last.
    """
    start: int
    """The index of the first row to return, in the order of ``sort``."""
    limit: int
    """The maximum number of rows to return."""


def partitions(
    job: str, at: float, lanes: Iterable[Lane], reports: Mapping[str, LaneReport] | None, wanted: PartitionFilter
) -> Partitions:
    """The partitions that lanes read: the rows that ``wanted`` selects, and totals. The totals cover all partitions of
    the wanted stage and lane, including those that ``start`` and ``limit`` leave out. ``reports`` maps the ids of lanes
    to their latest reports; None if the job isn't served here. Raises UsageError if ``wanted.sort`` names no column.
    """
    column, falling = wanted.sort.removeprefix("-"), wanted.sort.startswith("-")
    if column not in COLUMNS:
        raise UsageError(f"there is no column {column[:40]!r}", f"sort by one of {', '.join(COLUMNS)}")
    heard = reports or {}
    its = [each for each in open_lanes(lanes) if wanted.stage in ("", each.stage) and wanted.lane in ("", each.id)]
    rows = [row for each in its for row in _rows(each, heard.get(each.id))]
    place = COLUMNS.index(column)
    known = sorted((row for row in rows if row[place] is not None), key=lambda row: row[place], reverse=falling)
    ordered = [*known, *(row for row in rows if row[place] is None)]
    lags = sorted(row[_LAG] for row in rows if row[_LAG] is not None)
    idle = sum(row[_IDLE] is True for row in rows)
    times = [row[_TIME] for row in rows if row[_TIME] is not None and not row[_IDLE]]
    near = min(times, default=0) + _NEAR
    watermarks = [
        (each.id, heard[each.id].event_time.watermark, heard[each.id].event_time.held_by)
        for each in its
        if each.id in heard
    ]
    return Partitions(
        at=at,
        job=job,
        served=reports is not None,
        start=wanted.start,
        total=len(rows),
        table=Table.of(COLUMNS, ordered[wanted.start : wanted.start + wanted.limit]),
        totals={
            "lag": sum(lags),
            "idle": idle,
            "unknown": len(rows) - len(lags),
            "timed": len(times),
            "holding": sum(at <= near for at in times),
        },
        quantiles=_quantiles(lags),
        watermarks=Table.of(("lane", "watermark", "heldBy"), watermarks),
    )


def _rows(lane: Lane, report: LaneReport | None) -> Iterable[tuple[Any, ...]]:
    names = list(dict.fromkeys(map(str, wholes((*lane.ssps, *lane.broadcast)))))
    if report is None:
        return ((name, lane.id, *(None,) * (len(COLUMNS) - 2)) for name in names)
    idle, positions, ends = set(report.event_time.idle), report.progress.positions, report.progress.ends
    return (
        (
            name,
            lane.id,
            positions.get(name),
            ends.get(name),
            max(0, ends[name] - positions.get(name, 0)) if name in ends else None,
            name == report.event_time.held_by,
            name in idle,
            report.event_time.times.get(name),
        )
        for name in names
    )


def _quantiles(ordered: Sequence[int]) -> dict[str, int]:
    if not ordered:
        return {}
    last = len(ordered) - 1
    return {name: ordered[round(last * part)] for name, part in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1))}
