"""What holds a job back, as it is shown."""

from __future__ import annotations

from typing import Literal

from anabranch.model.document import Document

__all__ = ["SEVERITIES", "Finding", "Severity"]

Severity = Literal["failed", "attention", "notice"]
SEVERITIES: tuple[Severity, ...] = ("failed", "attention", "notice")
"""The worst first."""


class Finding(Document, frozen=True, kw_only=True):
    """Something that needs somebody.

    ``rule``: the one that found it. ``subject``: what it is about, by kind (``lane``, ``ssp``, ``container``,
    ``seat``, ``stream`` or ``job``). ``figures``: what that is said by. ``cure``: what to do. ``since``: seconds since
    1970; None: not known.
    """

    severity: Severity
    rule: str
    subject: dict[str, str]
    what: str
    why: str = ""
    figures: dict[str, float] = {}
    cure: str = ""
    since: float | None = None
