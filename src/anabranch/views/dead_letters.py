"""Dead letters as a page and the command line show them."""

from __future__ import annotations

from anabranch.model.document import Document

__all__ = ["Content", "DeadLetter", "DeadLetters", "Origin"]


class Content(Document, frozen=True, kw_only=True):
    """The bytes of a key or a value, as ``text`` if they are UTF-8, else as ``base64``."""

    bytes: int
    """How many bytes there are."""
    cut: bool = False
    """Whether these are only the first of them."""
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
    """The partition of the dead letters' stream that it is in."""
    offset: int
    at: int
    """The record's timestamp, in Unix ms."""
    error: str = ""
    operator: str = ""
    """The operator that rejected it."""
    origin: Origin | None = None
    """None: it was made of several records, or of state."""
    key: Content | None = None
    value: Content | None = None
    headers: dict[str, str] = {}
    """The headers that the record had."""


class DeadLetters(Document, frozen=True, kw_only=True):
    """The newest dead letters of one of a job's streams, newest first."""

    at: float
    """Seconds since 1970, by the coordinator's clock."""
    job: str
    streams: tuple[str, ...]
    """All streams that take the job's dead letters."""
    stream: str
    """The one whose letters these are; empty: the job has none."""
    letters: tuple[DeadLetter, ...]
    before: dict[str, int] = {}
    """The offset before which earlier ones are, by partition; a partition without any isn't named."""
    partly: bool = False
    """Whether reading was broken off, as it took too long or there was too much: there are more after ``before``."""
