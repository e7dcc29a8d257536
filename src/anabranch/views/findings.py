"""What holds a job back, in the form in which it is shown."""

from __future__ import annotations

from typing import Literal

import msgspec

from anabranch.model.document import Document

__all__ = ["SEVERITIES", "Finding", "Severity"]

Severity = Literal["failed", "attention", "notice"]
SEVERITIES: tuple[Severity, ...] = ("failed", "attention", "notice")
"""The severities, the worst first."""


class Finding(Document, frozen=True, kw_only=True):
    """Something that needs attention.

    ``rule``: the rule that found it. ``subject``: what it is about, by kind (``lane``, ``ssp``, ``container``,
    ``seat``, ``stream`` or ``job``). ``summary``: the problem in one sentence; ``why``: its cause. ``figures``: the
    evidence. ``cure``: what to do. ``since``: seconds since 1970; None: unknown.
    """

    severity: Severity
    rule: str
    subject: dict[str, str]
    summary: str = msgspec.field(name="what")
    why: str = ""
    figures: dict[str, float] = {}
    cure: str = ""
    since: float | None = None
