"""Shows which jobs read a stream, and how many records the stream keeps for each of them, as text or as JSON. Also
makes a stream forget that a job reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anabranch.cli import output
from anabranch.errors import NotFoundError, UsageError
from anabranch.model.naming import check_name
from anabranch.systems.contract import System
from anabranch.systems.readers import ReaderLag

__all__ = ["forget", "lines", "of", "overdue", "plain"]


def of(system: System, stream: str) -> list[ReaderLag]:
    """The jobs that read a stream, sorted by name; empty if the stream's system doesn't track readers."""
    readers = system.readers()
    return [] if readers is None else sorted(readers.lags(stream), key=lambda lag: lag.job)


def forget(system: System, stream: str, job: str) -> None:
    """Forget that a job reads a stream.

    Raises:
        UsageError: no job can have this name, or the stream's system doesn't track readers.
        NotFoundError: the job isn't a reader of the stream.
    """
    check_name("job", job)
    readers = system.readers()
    if readers is None:
        raise UsageError(f"{stream} is in {system.name}, which keeps nothing for readers", "leave out --forget-reader")
    if not readers.forget(stream, job):
        known = ", ".join(sorted(lag.job for lag in readers.lags(stream)))
        raise NotFoundError(f"job {job!r} isn't a known reader of {stream}", f"those are: {known or 'none'}")


def lines(stream: str, readers: Sequence[ReaderLag], now: float) -> list[str]:
    """A line for each reader, then the lines of :func:`overdue`. ``now`` is in seconds since 1970."""
    each = [
        f"reader {lag.job}: {output.count(lag.unread, 'record')} to read, as of {_ago(now - lag.changed_at)}"
        for lag in readers
    ]
    return [*each, *overdue(stream, readers)]


def overdue(stream: str, readers: Sequence[ReaderLag]) -> list[str]:
    """Lines that say how many records a stream keeps beyond its retention because jobs haven't read them yet. The lines
    also say what the user can do. If there are no such records, there are no lines.
    """
    found = [
        f"kept beyond the retention, because job {lag.job} must still read them: {output.count(lag.overdue, 'record')}"
        for lag in readers
        if lag.overdue
    ]
    if not found:
        return []
    jobs = " or ".join(f"anabranch reset {lag.job}" for lag in readers if lag.overdue)
    cure = f"  let that job run; or, to lose these records: {jobs}; or anabranch stream retain {stream} --past-readers"
    return [*found, cure]


def plain(readers: Sequence[ReaderLag]) -> list[dict[str, Any]]:
    """The readers, as values for JSON; ``changedAt`` is in seconds since 1970."""
    return [
        {"job": lag.job, "unread": lag.unread, "overdue": lag.overdue, "changedAt": lag.changed_at} for lag in readers
    ]


def _ago(seconds: float) -> str:
    for name, unit in (("day", 86_400), ("hour", 3600), ("minute", 60)):
        if seconds >= unit:
            return f"{output.count(int(seconds // unit), name)} ago"
    return "less than a minute ago"
