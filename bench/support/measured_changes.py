"""What ``anabranch show changes JOB --json`` says about the changes of a job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def first(changes: Iterable[Mapping[str, Any]], since: float = 0.0) -> Mapping[str, Any] | None:
    """The first change that began at ``since`` or later and for which a pause above 0.0 was measured, or None if there
    is no such change.
    """
    found = [each for each in changes if each["began"] >= since and each["measuredPause"]]
    return min(found, key=lambda each: float(each["began"]), default=None)
