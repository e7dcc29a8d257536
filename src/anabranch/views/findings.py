"""The document from which the dashboard and the command line get findings: problems that hold a job back."""

from __future__ import annotations

from typing import Literal

import msgspec

from anabranch.model.document import Document

__all__ = ["SEVERITIES", "Finding", "Severity"]

Severity = Literal["failed", "attention", "notice"]
SEVERITIES: tuple[Severity, ...] = ("failed", "attention", "notice")
"""All severities, the most severe first."""


class Finding(Document, frozen=True, kw_only=True):
    """A problem of a job that needs attention."""

    severity: Severity
    rule: str
    """The name of the rule that found the problem."""
    subject: dict[str, str]
    """The names of the things that the problem concerns, by kind. The kinds are ``lane``, ``ssp``, ``container``,
    ``seat``, ``stream`` and ``job``.
    """
    summary: str = msgspec.field(name="what")
    """The problem in one sentence; ``what`` in JSON."""
    why: str = ""
    """The cause."""
    figures: dict[str, float] = {}
    """The metrics that show the problem."""
    cure: str = ""
    """What to do about the problem."""
    since: float | None = None
    """When the problem began, in seconds since 1970; None if unknown."""
