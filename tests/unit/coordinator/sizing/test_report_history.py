"""How fast a lane is, by its last reports."""

from __future__ import annotations

from anabranch.coordinator.sizing.report_history import ReportHistory, listened
from anabranch.protocol.lane_report import LanePhase, LaneReport
from tests.support.reports import lane_report


def report(rows: int, end: int) -> LaneReport:
    return lane_report("l", LanePhase.RUNNING, rows=rows, ends={"kafka/in/0": end})


def after(*rows: int) -> ReportHistory:
    """A report each second, of so many records; each second, 100 more arrive."""
    history = None
    for at, done in enumerate(rows):
        history = listened(history, report(done, 100 * at), float(at))
    assert history is not None
    return history


def test_a_batch_that_is_broken_off_does_not_count_as_negative() -> None:
    falling = after(5000, 5000, 5000, 5000, 0)
    assert falling.throughput(20.0) == 0.0
    assert falling.moved == 4.0
    again = after(0, 1000, 2000, 3000, 4000, 5000, 0, 1000, 2000, 3000, 4000)
    assert again.throughput(20.0) == 900.0
    assert again.arriving == 100.0
    assert after(0, 1000, 2000, 3000, 4000).throughput(20.0) == 1000.0
