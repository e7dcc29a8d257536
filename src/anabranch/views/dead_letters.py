"""Dead letters as shown by a page and the command line."""

from __future__ import annotations

from anabranch.model.document import Document

__all__ = ["Content", "DeadLetter", "DeadLetters", "Origin"]


class Content(Document, frozen=True, kw_only=True):
    """The bytes of a key or a value: as ``text`` if they are UTF-8, otherwise as ``base64``."""

    bytes: int
    """The number of bytes."""
    cut: bool = False
    """Whether this is only the beginning."""
    text: str | None = None
    base64: str | None = None


class Origin(Document, frozen=True, kw_only=True):
    """Where a record was read."""

    stream: str
    partition: int
    offset: int


class DeadLetter(Document, frozen=True, kw_only=True):
    """A record that could not be processed."""

    partition: int
    """Its partition in the dead-letter stream."""
    offset: int
    at: int
    """The record's timestamp, in Unix ms."""
    error: str = ""
    operator: str = ""
    """The operator that rejected it."""
    origin: Origin | None = None
    """Where the record was read; None if it was made from several records, or from state."""
    key: Content | None = None
    value: Content | None = None
    headers: dict[str, str] = {}
    """The headers that the record had."""


class DeadLetters(Document, frozen=True, kw_only=True):
    """The newest dead letters of one of a job's streams, newest first."""

    at: float
    """Seconds since 1970, on the coordinator's clock."""
    job: str
    streams: tuple[str, ...]
    """All dead-letter streams of the job."""
    stream: str
    """The stream of these letters; empty if the job has none."""
    letters: tuple[DeadLetter, ...]
    before: dict[str, int] = {}
    """By partition, the offset before which there are earlier letters; partitions without any are left out."""
    partly: bool = False
    """Whether reading was stopped because it took too long or because there was too much. There are then more letters
    before ``before``."""
