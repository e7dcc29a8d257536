"""The embedded log as a system: what the planner and the command line ask of any."""

from __future__ import annotations

from pathlib import Path

from anabranch.systems.embedded.log import Log

__all__ = ["EmbeddedSystem"]


class EmbeddedSystem:
    """The streams under ``root``. It keeps everything, so each partition starts at 0."""

    def __init__(self, root: Path | str) -> None:
        self.log = Log(root)

    def streams(self) -> list[str]:
        return self.log.streams()

    def partitions(self, stream: str) -> int:
        return self.log.describe(stream).partitions

    def create(self, stream: str, partitions: int) -> None:
        self.log.create(stream, partitions)

    def expand(self, stream: str, partitions: int) -> None:
        self.log.expand(stream, partitions)

    def starts(self, stream: str) -> dict[int, int]:
        return dict.fromkeys(range(self.partitions(stream)), 0)

    def ends(self, stream: str) -> dict[int, int]:
        return {number: tail.end for number, tail in self.log.ends(stream).items()}
