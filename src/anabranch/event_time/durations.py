"""Durations as a user writes them: ``"10 minutes"``, ``"1 hour 30 minutes"``."""

from __future__ import annotations

import re

_UNITS = {
    "millisecond": 1,
    "second": 1_000,
    "minute": 60_000,
    "hour": 3_600_000,
    "day": 86_400_000,
    "week": 604_800_000,
}
_WHOLE = re.compile(r"\s*(?:[0-9]+\s*[a-z]+\s*)+")
_DIGITS = 15
_LONGEST = 10_000 * 366 * _UNITS["day"]
"""The longest duration, in milliseconds: ten thousand years."""


def parse(text: object) -> int:
    """A duration in milliseconds. Months and years have no fixed length and are refused.

    Raises:
        ValueError: the text isn't a duration; the message lists the allowed forms.
    """
    told = f"{text!r} is no duration: write a number and {', '.join(f'{unit}s' for unit in _UNITS)}, as in '10 minutes'"
    if not isinstance(text, str) or not _WHOLE.fullmatch(text.lower()):
        raise ValueError(told)
    total = 0
    for number, unit in re.findall(r"(\d+)\s*([a-z]+)", text.lower()):
        known = unit if unit in _UNITS else unit.removesuffix("s")
        if known not in _UNITS:
            raise ValueError(told)
        if len(number) > _DIGITS:
            raise ValueError(f"{text[:60]!r} is longer than 10,000 years")
        total += int(number) * _UNITS[known]
    if total > _LONGEST:
        raise ValueError(f"{text!r} is longer than 10,000 years")
    return total
