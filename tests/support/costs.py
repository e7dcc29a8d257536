"""What our code costs, counted and not timed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType

import anabranch

__all__ = ["ALLOWED", "calls", "too_dear"]

ALLOWED = 2.7
"""How many times as much twice the size may cost: some work is sorting."""
_OURS = str(Path(anabranch.__file__).parent)


def calls(work: Callable[[], object]) -> int:
    """How many functions our code calls, its own and those of others."""
    count = 0

    def called(frame: FrameType, event: str, _: object) -> None:
        nonlocal count
        if event in {"call", "c_call"} and frame.f_code.co_filename.startswith(_OURS):
            count += 1

    sys.setprofile(called)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def too_dear(small: Mapping[str, int], large: Mapping[str, int]) -> dict[str, float]:
    """What costs more than it may at twice the size, with how many times as much it costs."""
    ratios = {name: round(large[name] / small[name], 2) for name in small}
    return {name: ratio for name, ratio in ratios.items() if ratio > ALLOWED}
