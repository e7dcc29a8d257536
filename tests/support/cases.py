"""How much of a test the suite runs. The whole is run by soak's scenario ``long``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

from hypothesis import settings

__all__ = ["THOROUGH", "examples", "left_out"]

THOROUGH = "ANABRANCH_THOROUGH_TESTS"
"""If this variable is set in the environment, properties are tested with all of their examples."""
_SHARE, _LEAST = 4, 50

T = TypeVar("T")


def examples(count: int) -> settings:
    """For a property that is tested with ``count`` examples: the suite has a quarter of them, but at least 50."""
    return settings(max_examples=count if os.environ.get(THOROUGH) else max(min(count, _LEAST), count // _SHARE))


def left_out(cases: Sequence[T], kept: int) -> list[T]:
    """The ``cases`` without ``kept`` of them, which are spread evenly from the first to the last."""
    last = len(cases) - 1
    kept_at = {round(at * last / max(kept - 1, 1)) for at in range(kept)}
    return [case for at, case in enumerate(cases) if at not in kept_at]
