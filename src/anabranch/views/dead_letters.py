"""The documents that describe dead letters to the dashboard and the command line."""

from __future__ import annotations

from anabranch.model.document import Document

__all__ = ["Content", "DeadLetter", "DeadLetters", "Origin"]


class Content(Document, frozen=True, kw_only=True):
    """The bytes of a key or a value. They are in ``text`` if they are UTF-8, and otherwise in ``base64``."""

    bytes: int
    """The number of bytes."""
    cut: bool = False
    """Whether only the beginning of the bytes is given."""
    text: str | None = None
    base64: str | None = None


class Origin(Document, frozen=True, kw_only=True):
    """The place in a stream from which a record was read."""

    stream: str
    partition: int
    offset: int


class DeadLetter(Document, frozen=True, kw_only=True):
    """A record that could not be processed."""

    partition: int
    """The dead letter's partition in the dead-letter stream."""
    offset: int
    at: int
    """The dead letter's timestamp, in Unix ms."""
    error: str = ""
    operator: str = ""
    """The operator that could not process the record."""
    origin: Origin | None = None
    """The place from which the record was read; None if the record was made from several records, or from state."""
    key: Content | None = None
    value: Content | None = None
    headers: dict[str, str] = {}
    """The dead letter's headers, except the headers that anabranch has added."""


class DeadLetters(Document, frozen=True, kw_only=True):
    """The newest dead letters in one of a job's dead-letter streams, newest first."""

    at: float
    """Seconds since 1970, on the coordinator's clock."""
    job: str
    streams: tuple[str, ...]
    """All dead-letter streams of the job."""
    stream: str
    """The stream that contains ``letters``; empty if the job has no dead-letter stream."""
    letters: tuple[DeadLetter, ...]
    before: dict[str, int] = {}
    """For each partition, the value of ``before`` for a request for earlier letters. Partitions without earlier letters
    are left out.
    """
    partly: bool = False
    """Whether the coordinator stopped reading early, because reading took too long or there was too much to read. If
    True, letters that are newer than some of ``letters`` can be missing. To get the missing letters, request them with
    ``before``.
    """
