"""What the planner and the command line need of any system."""

from __future__ import annotations

from typing import Protocol

__all__ = ["System"]


class System(Protocol):
    """A place of named, partitioned, ordered logs. Answers are fresh: others may create streams, too."""

    def streams(self) -> list[str]:
        """The names of all streams, sorted."""
        ...

    def partitions(self, stream: str) -> int:
        """How many partitions a stream has. Raises NotFoundError."""
        ...

    def create(self, stream: str, partitions: int) -> None:
        """Make a stream; one that is there with that count is left as it is.

        Raises:
            ConflictError: it is there with another count.
        """
        ...

    def expand(self, stream: str, partitions: int) -> None:
        """Raise a stream's partition count to a multiple of the present one. It can't be lowered again."""
        ...

    def starts(self, stream: str) -> dict[int, int]:
        """Partition → offset of the oldest record that is kept."""
        ...

    def ends(self, stream: str) -> dict[int, int]:
        """Partition → the offset that the next record will get: one past the last that a reader may see.

        Offsets may have gaps (Kafka's transactions take some): never count records by subtraction.
        """
        ...
