"""Draws tables and a job's progress. Import this module only where tables are drawn: importing rich takes as long as
everything else that a short verb does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table

from anabranch import consoles
from anabranch.cli import progress
from anabranch.errors import AnabranchError
from anabranch.model.lane import LaneState
from anabranch.protocol.status import JobStatus

_REFRESH = 0.5
_LINE_EVERY = 5.0
_WIDE = 1000

Show = Callable[[], RenderableType]


class Status(Protocol):
    """Anything that can return a job's status."""

    def status(self, job: str) -> JobStatus: ...


def wide(record: bool = False) -> consoles.Console:
    """A console for tables on stdout. On a terminal, tables are cut to the terminal's width. With ``record``, the
    output can be exported, and isn't cut.
    """
    console = consoles.plain()
    return console if console.is_terminal and not record else consoles.plain(width=_WIDE, record=record)


def table(status: JobStatus) -> Table:
    """A job's lanes as a table."""
    title = f"{status.job}: {status.state}, deployment {status.deployment}, generation {status.generation}"
    found = Table(title=title, title_justify="left")
    left = ("lane", "runs", "state", "held back by")
    for column in (*left[:3], "batch", "rows", "rows/s", "lag", "batch s", "rejected", "watermark", left[3]):
        found.add_column(column, justify="left" if column in left else "right")
    for lane in status.lanes:
        report = lane.report
        resting = "stopped" if lane.lane.final and lane.lane.state is LaneState.PLANNED else lane.lane.state.value
        phase = report.phase if report is not None else resting
        numbers = (
            (
                f"{report.progress.batch}" if report.progress.batch >= 0 else "-",
                f"{report.progress.rows:,}",
                f"{report.load.rows_per_second:,.0f}",
                progress.lag(report),
                f"{report.load.seconds:.1f}",
                progress.rejected(report),
                progress.when(report.event_time.watermark),
                report.event_time.held_by or progress.idle(report),
            )
            if report is not None
            else (
                *("-",) * 5,
                f"{lane.lane.put_aside:,} dead" if lane.lane.put_aside else "",
                progress.when(lane.lane.watermark),
                "",
            )
        )
        found.add_row(lane.lane.id, lane.lane.group, phase, *numbers)
    return found


def lanes(status: JobStatus) -> Group:
    """A job's lanes as a table, with the progress of running batches."""
    return Group(table(status), *progress.batches(status))


def watch(coordinator: Status, job: str, until: threading.Event, show: Show | None, every: float = _LINE_EVERY) -> None:
    """Show a job's progress and problems on stderr until ``until`` is set. On a terminal, show a table, the problems
    below it and, if ``show`` is given, the result of ``show`` at the end. If stderr isn't a terminal, print lines
    instead. If the status can't be read for a while, say so once.
    """
    console = consoles.plain(stderr=True)
    if not console.is_terminal:
        lines = _Lines()
        while not until.wait(every):
            lines.tell(*_read(coordinator, job))
        return
    with Live(console=console, refresh_per_second=4, transient=True) as live:
        while not until.is_set():
            status, error = _read(coordinator, job)
            parts: list[RenderableType] = [error] if status is None else [lanes(status), *progress.troubles(status)]
            if show is not None:
                parts.append(show())
            live.update(Group(*parts))
            time.sleep(_REFRESH)


class _Lines:
    """Prints a job's progress and problems, each line once."""

    def __init__(self) -> None:
        self._last = ""
        self._told = set[str]()

    def tell(self, status: JobStatus | None, error: str) -> None:
        now = error if status is None else progress.line(status)
        if now != self._last:
            progress.say(now)
        self._last = now
        for trouble in () if status is None else progress.troubles(status):
            if trouble not in self._told:
                self._told.add(trouble)
                progress.say(f"warning: {trouble}")


def _read(coordinator: Status, job: str) -> tuple[JobStatus | None, str]:
    """A job's status and an empty text; or None, and why the status can't be read at the moment."""
    try:
        return coordinator.status(job), ""
    except AnabranchError as error:
        return None, f"the status of job {job} can't be shown at the moment: {error.what}"
