"""What a run says of its lanes at the end."""

from __future__ import annotations

import pytest

from anabranch.cli import progress
from anabranch.messages import LaneReport


@pytest.mark.parametrize(
    ("watermark", "held_by", "said"),
    [
        (None, None, ""),
        (None, "embedded/a/1", "; no watermark: embedded/a/1 has had no event time, and holds every window open"),
        (1_388_546_100_000, "embedded/a/1", "; watermark 2014-01-01 03:15:00, held by embedded/a/1"),
    ],
)
def test_what_holds_windows_open_is_said(watermark: int | None, held_by: str | None, said: str) -> None:
    report = LaneReport(lane="0-1", phase="ended", watermark=watermark, held_by=held_by)
    assert progress.event_time(report) == said
