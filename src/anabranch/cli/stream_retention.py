"""Reads a stream's retention from options, and shows it as text."""

from __future__ import annotations

import re

from anabranch.errors import UsageError
from anabranch.event_time import durations
from anabranch.systems.retention import Retention

__all__ = ["parsed", "text"]

_SIZE = re.compile(r"(\d+)\s*([kMGT]?)B?", re.IGNORECASE)
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


def parsed(age: str | None, size: str | None) -> Retention | None:
    """The retention that the options ask for; None without options. Raises UsageError for an invalid option."""
    if age is None and size is None:
        return None
    return Retention(ms=None if age is None else _ms(age), bytes=None if size is None else _bytes(size))


def text(kept: Retention | None) -> str:
    """The retention as human-readable text."""
    if kept is None:
        return "what its system decides"
    limits = []
    if kept.ms is not None:
        limits.append(f"records for {_duration(kept.ms)}")
    if kept.bytes is not None:
        limits.append(f"the newest {kept.bytes:,} bytes of each partition")
    return ", and only ".join(limits) or "all records"


def _ms(age: str) -> int:
    try:
        return durations.parse(age)
    except ValueError as error:
        raise UsageError(f"--retain-for: {error}", 'write it as in --retain-for "7 days"') from None


def _bytes(size: str) -> int:
    found = _SIZE.fullmatch(size.strip())
    if found is None:
        raise UsageError(f"--retain-bytes {size!r} isn't a size", "write it as in --retain-bytes 10GB, or 500MB")
    return int(found[1]) * _UNITS[found[2].lower()]


def _duration(ms: int) -> str:
    for name, unit in (("day", 86_400_000), ("hour", 3_600_000), ("minute", 60_000), ("second", 1000)):
        if ms % unit == 0:
            return f"{ms // unit:,} {name}" if ms == unit else f"{ms // unit:,} {name}s"
    return f"{ms:,} milliseconds"
