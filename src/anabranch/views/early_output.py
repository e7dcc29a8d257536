"""Rows that came out before their windows were complete, as a page and the command line show them."""

from __future__ import annotations

from anabranch.model.document import Document
from anabranch.views.dead_letters import Content

__all__ = ["EarlyOutput", "EarlyRow"]


class EarlyRow(Document, frozen=True, kw_only=True):
    """A row of a window that a drain cut."""

    partition: int
    offset: int
    at: int
    """The record's timestamp, in Unix ms."""
    key: Content | None = None
    value: Content | None = None


class EarlyOutput(Document, frozen=True, kw_only=True):
    """The rows of cut windows among the newest records of one of a job's output streams, newest first."""

    at: float
    """Seconds since 1970, by the coordinator's clock."""
    job: str
    streams: tuple[str, ...]
    """All output streams of the job that it doesn't read itself."""
    stream: str
    """The stream of these rows; empty: the job has none."""
    rows: tuple[EarlyRow, ...]
    total: int
    """How many such rows there are among the records that were looked at."""
    looked_at: int
    """How many records were looked at: the newest ones of each partition."""
    partly: bool = False
    """Whether there are older records that weren't looked at."""
