"""Where output rows go, and the segments that wait to be published there."""

from __future__ import annotations

from dataclasses import dataclass

from anabranch.systems.embedded import SegmentRef

Refs = dict[tuple[str, int], list[SegmentRef]]
"""Durable segments that no manifest names yet, by stream and partition."""


@dataclass(frozen=True)
class Target:
    """A stream that an output writes to."""

    stream: str
    partitions: int


def added(refs: Refs, more: Refs) -> None:
    """Put ``more`` into ``refs``."""
    for place, several in more.items():
        refs.setdefault(place, []).extend(several)
