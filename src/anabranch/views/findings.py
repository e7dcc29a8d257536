"""Findings: what holds a job back, as shown by the dashboard and the command line."""

from __future__ import annotations

from typing import Literal

import msgspec

from anabranch.model.document import Document

__all__ = ["SEVERITIES", "Finding", "Severity"]

Severity = Literal["failed", "attention", "notice"]
SEVERITIES: tuple[Severity, ...] = ("failed", "attention", "notice")
"""All severities, the worst first."""


class Finding(Document, frozen=True, kw_only=True):
    """A problem of a job that needs attention."""

    severity: Severity
    rule: str
    """The rule that found the problem."""
    subject: dict[str, str]
    """The names of what the problem concerns, by kind: ``lane``, ``ssp``, ``container``, ``seat``, ``stream`` or
    ``job``.
    """
    summary: str = msgspec.field(name="what")
    """The problem in one sentence; ``what`` in JSON."""
    why: str = ""
    """The cause."""
    figures: dict[str, float] = {}
    """The figures from which the problem is concluded."""
    cure: str = ""
    """What to do about it."""
    since: float | None = None
    """Since when the problem exists, in seconds since 1970; None: unknown."""
