"""The documents from which the dashboard and the command line learn about rows that were emitted before their windows
were complete.
"""

from __future__ import annotations

from anabranch.model.document import Document
from anabranch.views.dead_letters import Content

__all__ = ["EarlyOutput", "EarlyRow"]


class EarlyRow(Document, frozen=True, kw_only=True):
    """A row that a drain emitted for a window before the window was complete."""

    partition: int
    offset: int
    at: int
    """The record's timestamp, in Unix ms."""
    key: Content | None = None
    value: Content | None = None


class EarlyOutput(Document, frozen=True, kw_only=True):
    """The rows of incomplete windows among the newest records of one of a job's output streams, newest first."""

    at: float
    """Seconds since 1970, on the coordinator's clock."""
    job: str
    streams: tuple[str, ...]
    """All streams that the job's last deployment writes and doesn't read itself, except dead-letter streams."""
    stream: str
    """The stream that contains ``rows``; empty if the job has no such stream."""
    rows: tuple[EarlyRow, ...]
    total: int
    """How many of the examined records are rows of incomplete windows, including rows that aren't in ``rows``."""
    looked_at: int
    """How many records were examined: the newest records of each partition."""
    partly: bool = False
    """Whether older records exist that weren't examined."""
